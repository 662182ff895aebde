use netqos_core::{Destination, IpBlock, Rule};
use netqos_testkit::rules::{HOOKS, marking};

use super::scene::{Scene, WAYS, marking_kind};

#[test]
fn and_new_connections_go_by_those_that_are_there() {
    let Some(mut scene) = Scene::new(HOOKS[0]) else {
        return;
    };
    scene.backend("web1", "web");
    scene.backend("web2", "web");
    scene.backend("db1", "db");
    scene.rules(vec![marking_kind(20, "web")]);
    for (backends, first, web) in [
        (&["web1"][..], 20, 20),
        (&["web1", "web2"], 20, 20),
        (&["web1", "db1"], 0, 20),
        (&["db1"], 0, 20),
        (&["web2"], 20, 20),
    ] {
        scene.service(backends);
        for (protocol, v6) in WAYS {
            for _ in 0..backends.len() {
                let flow = scene.flow(protocol, v6);
                assert!(backends.contains(&flow.to.as_str()));
                let rest = if flow.to == "db1" { 0 } else { web };
                assert_eq!(flow.first_and_rest(), (first, rest), "{flow:?}");
            }
        }
        let again = scene.world.rules.sync(scene.world.index.plan());
        assert_eq!((again.problems.as_slice(), again.changes), (&[][..], 0));
    }
}

#[test]
fn what_differed_to_rules_that_are_gone_is_alike_again() {
    let Some(mut scene) = Scene::new(HOOKS[0]) else {
        return;
    };
    scene.backend("web1", "web");
    scene.backend("db1", "db");
    scene.service(&["web1", "db1"]);
    let only_web = IpBlock::try_new(scene.address("web1", false).into(), vec![]).unwrap();
    scene.rules(vec![Rule {
        to: vec![Destination::Block(only_web)],
        ..marking(20)
    }]);
    scene.rules(vec![marking(9)]);
    scene.world.tidy();
    let again = scene.world.rules.sync(scene.world.index.plan());
    assert_eq!((again.problems.as_slice(), again.changes), (&[][..], 0));
    for (protocol, v6) in WAYS {
        assert_eq!(scene.flow(protocol, v6).first_and_rest(), (9, 9));
    }
}
