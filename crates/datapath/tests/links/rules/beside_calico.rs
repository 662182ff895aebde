//! Calico limits what a pod sends by an `ingress` qdisc, which the kernel refuses where clsact is.

use netqos_api::HookChoice;
use netqos_core::Reason;
use netqos_index::Change;
use netqos_testkit::rules::{World, marking, policy};
use netqos_testkit::{Felix, has_tcx};

const FELIX: Felix = Felix {
    ingress: None,
    egress: Some("20mbit"),
};

fn world(hook: HookChoice) -> Option<World> {
    let mut world = World::new(hook)?;
    world.pod("a", "player");
    world.pod("b", "gateway");
    Some(world)
}

fn mark(world: &mut World, dscp: i64) {
    let rules = vec![marking(dscp)];
    world.try_apply(Change::Policy(policy("p", 1, "player", rules)));
}

#[test]
fn rules_on_tcx_come_before_calicos_limit() {
    if !has_tcx() {
        return;
    }
    let Some(mut world) = world(HookChoice::Auto) else {
        return;
    };
    mark(&mut world, 20);
    FELIX.update(&world.node, world.pod_named("a")).unwrap();
    for _ in 0..2 {
        let outcome = world.rules.inspect(world.index.plan());
        assert_eq!((outcome.changes, outcome.problems), (0, vec![]));
        assert_eq!(world.marks("a", "b", false), [20]);
        FELIX.update(&world.node, world.pod_named("a")).unwrap();
    }
}

/// A kernel without tcx has one place for both.
#[test]
fn rules_on_clsact_make_room_for_calicos_limit() {
    let Some(mut world) = world(HookChoice::Clsact) else {
        return;
    };
    mark(&mut world, 20);
    assert_eq!(world.marks("a", "b", false), [20]);
    let refused = FELIX.update(&world.node, world.pod_named("a"));
    refused.unwrap_err();
    let outcome = world.rules.inspect(world.index.plan());
    let reasons: Vec<Reason> = outcome.problems.iter().map(|it| it.reason).collect();
    assert_eq!(reasons, [Reason::HookReplaced]);
    FELIX.update(&world.node, world.pod_named("a")).unwrap();
    assert_eq!(world.marks("a", "b", false), [0]);
    let limited = world.tcp("a", "b", 1.0);
    assert!(limited < 40_000_000.0, "{limited} bit/s");
    mark(&mut world, 30);
    assert_eq!(world.marks("a", "b", false), [0]);

    FELIX.end(&world.node, world.pod_named("a")).unwrap();
    mark(&mut world, 20);
    assert_eq!(world.marks("a", "b", false), [20]);
    assert_eq!(world.rules.inspect(world.index.plan()).problems, []);
}
