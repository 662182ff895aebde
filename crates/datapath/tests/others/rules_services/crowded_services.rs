//! Services with more kinds of backends than an entry of the program has room for.

use netqos_core::{Destination, IpBlock, Rule};
use netqos_index::Change;
use netqos_testkit::rules::{HOOKS, marking, policy};

use super::scene::{Scene, TARGET_PORT, WAYS, any_port, marking_kind};

/// More than the program compares.
const BACKENDS: [&str; 10] = ["b0", "b1", "b2", "b3", "b4", "b5", "b6", "b7", "b8", "b9"];

/// Marks what goes to this backend.
fn marking_backend(scene: &Scene, dscp: i64, backend: &str) -> Rule {
    let to = [false, true].map(|v6| {
        let only = IpBlock::try_new(scene.address(backend, v6).into(), vec![]).unwrap();
        Destination::Block(only)
    });
    Rule {
        to: to.to_vec(),
        ..marking(dscp)
    }
}

fn assert_marks(scene: &Scene, marks: (u8, u8)) {
    for (protocol, v6) in WAYS {
        let flow = scene.flow(protocol, v6);
        assert_eq!(flow.first_and_rest(), marks, "{flow:?}");
    }
}

#[test]
fn rules_of_other_pods_leave_the_verdict() {
    let Some(mut scene) = Scene::new(HOOKS[0]) else {
        return;
    };
    for name in BACKENDS {
        scene.backend(name, "web");
    }
    scene.service(&BACKENDS);
    scene.rules(vec![marking(30), marking_kind(10, "web")]);
    assert_marks(&scene, (10, 10));
    let apart = BACKENDS.iter().zip(40..);
    let apart = apart.map(|(name, dscp)| marking_backend(&scene, dscp, name));
    let of_others = policy("others", 1, "web", apart.collect());
    scene.world.apply(Change::Policy(of_others));
    assert_marks(&scene, (10, 10));
    scene.world.tidy();
    let again = scene.world.rules.sync(scene.world.index.plan());
    assert_eq!((again.problems.as_slice(), again.changes), (&[][..], 0));

    // To the client's new rules they are alike in another way, and then they differ.
    scene.rules(vec![marking(30), marking_kind(12, "web")]);
    assert_marks(&scene, (12, 12));
    let one = marking_backend(&scene, 20, "b9");
    scene.rules(vec![marking(30), marking_kind(12, "web"), one]);
    assert_eq!(scene.flow(WAYS[0].0, false).marks[0], 30);
    scene.world.tidy();
    let again = scene.world.rules.sync(scene.world.index.plan());
    assert_eq!((again.problems.as_slice(), again.changes), (&[][..], 0));

    scene.rules(vec![marking(30), marking_kind(12, "web")]);
    scene
        .world
        .apply(Change::PolicyGone(netqos_core::ObjectName::new(
            "games", "others",
        )));
    assert_marks(&scene, (12, 12));
    scene.world.tidy();
    let again = scene.world.rules.sync(scene.world.index.plan());
    assert_eq!((again.problems.as_slice(), again.changes), (&[][..], 0));
}

#[test]
fn new_chain_gets_entries_of_crowded_services() {
    let Some(mut scene) = Scene::new(HOOKS[0]) else {
        return;
    };
    for name in BACKENDS {
        scene.backend(name, "web");
    }
    scene.service(&BACKENDS);
    let apart = BACKENDS.iter().zip(40..);
    let apart = apart.map(|(name, dscp)| marking_backend(&scene, dscp, name));
    let of_others = policy("others", 1, "web", apart.collect());
    scene.world.apply(Change::Policy(of_others));
    // To the client's new chain the backends are alike, and their peer classes stay.
    let to_backends = Rule {
        ports: vec![any_port(TARGET_PORT)],
        ..marking(10)
    };
    scene.rules(vec![marking(30), to_backends]);
    assert_marks(&scene, (10, 10));
    scene.world.tidy();
    let again = scene.world.rules.sync(scene.world.index.plan());
    assert_eq!((again.problems.as_slice(), again.changes), (&[][..], 0));
}
