//! Rules in shadow mode count, and never alter a packet.

use netqos_api::HookChoice;
use netqos_core::{Destination, IpBlock, Mode, Rule};
use netqos_index::Change;
use netqos_testkit::rules::proxy::virtual_address;
use netqos_testkit::rules::{marking, on_both_hooks, policy};

use super::scene::{Scene, WAYS};

/// A rule in shadow mode for this address.
fn shadow(scene: &Scene, backend: &str, v6: bool) -> Rule {
    let only = IpBlock::try_new(scene.address(backend, v6).into(), vec![]).unwrap();
    Rule {
        to: vec![Destination::Block(only)],
        mode: Mode::Shadow,
        ..marking(40)
    }
}

/// A Service of two backends, and a rule to which they are alike.
fn service_with_rule(hook: HookChoice) -> Option<(Scene, Rule)> {
    let mut scene = Scene::new(hook)?;
    scene.backend("web1", "web");
    scene.backend("web2", "web");
    scene.service(&["web1", "web2"]);
    let to_pods = ["10.99.0.0/16", "fd99::/16"].map(|cidr| {
        let block = IpBlock::try_new(cidr.parse().unwrap(), vec![]).unwrap();
        Destination::Block(block)
    });
    let alike = Rule {
        to: to_pods.to_vec(),
        ..marking(10)
    };
    Some((scene, alike))
}

/// Has the backends differ in a rule in shadow mode.
fn apply_trial(scene: &mut Scene) {
    let shadows = [false, true].map(|v6| shadow(scene, "web1", v6));
    let trial = policy("trial", 50, "player", shadows.to_vec());
    scene.world.apply(Change::Policy(trial));
}

#[test]
fn shadow_rule_that_tells_backends_apart_leaves_every_mark() {
    on_both_hooks(|hook| {
        let Some((mut scene, alike)) = service_with_rule(hook) else {
            return;
        };
        scene.rules(vec![marking(30), alike]);
        apply_trial(&mut scene);
        for (protocol, v6) in WAYS {
            for _ in 0..2 {
                let flow = scene.flow(protocol, v6);
                assert_eq!(flow.first_and_rest(), (10, 10), "{hook:?} {flow:?}");
            }
        }
        // From the second packet on, conntrack says which backend the rule would have marked.
        let counts = scene.world.rules.counts().unwrap();
        let counted = counts
            .iter()
            .filter(|count| &*count.rule.policy.name == "trial");
        assert!(
            counted.map(|count| count.packets).sum::<u64>() > 0,
            "{counts:?}"
        );
    });
}

#[test]
fn shadow_rule_behind_the_winner_is_not_counted() {
    on_both_hooks(|hook| {
        let Some((mut scene, alike)) = service_with_rule(hook) else {
            return;
        };
        scene.rules(vec![alike]);
        // The backends differ in a rule in shadow mode, so that of the virtual address counts until conntrack knows.
        apply_trial(&mut scene);
        let virtual_addresses = [false, true].map(|v6| {
            let block = IpBlock::try_new(virtual_address(v6).into(), vec![]).unwrap();
            Destination::Block(block)
        });
        let to_service = Rule {
            to: virtual_addresses.to_vec(),
            mode: Mode::Shadow,
            ..marking(50)
        };
        let behind = policy("behind", 0, "player", vec![to_service]);
        scene.world.apply(Change::Policy(behind));
        for (protocol, v6) in WAYS {
            let flow = scene.flow(protocol, v6);
            assert_eq!(flow.first_and_rest(), (10, 10), "{hook:?} {flow:?}");
        }
        let counts = scene.world.rules.counts().unwrap();
        let packets = |policy: &str| -> u64 {
            let counts = counts.iter();
            let of_policy = counts.filter(|count| &*count.rule.policy.name == policy);
            of_policy.map(|count| count.packets).sum()
        };
        assert!(packets("trial") > 0, "{counts:?}");
        assert_eq!(packets("behind"), 0, "{counts:?}");
    });
}
