use aya::programs::TcAttachType;
use netqos_api::HookChoice;
use netqos_bpf::TcxHook;
use netqos_classes::ClassBackend;
use netqos_netlink::Socket;
use netqos_testkit::classes::{BE, SYSTEM, World, shares};
use netqos_testkit::{Felix, ForeignHook, ForeignProgram, Verdict, has_tcx};
use netqos_traffic::Flow;

/// What a pod sends is counted as its class's.
fn assert_is_known(world: &World, what: &str) {
    let before = world.sent(Flow::Upload);
    let found = world.transfer("be", Flow::Upload, false);
    let after = world.sent(Flow::Upload);
    let counted = after[&BE] - before[&BE];
    assert!(
        counted as f64 >= 0.95 * found,
        "{what}: {before:?} {after:?}"
    );
}

/// Programs on tcx where a pod sends, and where its line does.
fn on_tcx(world: &World) -> [usize; 2] {
    let mut socket = Socket::open().unwrap();
    let mut count = |link: &str, hook: TcxHook| {
        let link = socket.link_by_name(link).unwrap();
        hook.programs(link.index).unwrap_or_default().len()
    };
    [
        count(world.pods["be"].host_link(), TcxHook::Ingress),
        count(&world.line(), TcxHook::Egress),
    ]
}

/// Filters on clsact where a pod sends.
fn on_clsact(world: &World) -> usize {
    let words = [
        "filter",
        "show",
        "dev",
        world.pods["be"].host_link(),
        "ingress",
    ];
    let shown = world.node.run("tc", &words).unwrap();
    shown.matches("netqos_stamp").count()
}

/// A node that gets another kernel, or whose agent is told to use the other ones.
#[test]
fn are_exchanged_without_a_trace() {
    let Some(mut world) = World::with_tcx() else {
        return;
    };
    world.masquerade();
    let before = world.node.state(&[]).unwrap();
    for hook in [HookChoice::Clsact, HookChoice::Auto, HookChoice::Clsact] {
        world.attach_by(hook);
        assert!(world.divide(shares(100)).changes > 0, "{hook:?}");
        assert_eq!(world.divide(shares(100)).changes, 0, "{hook:?}");
        let is_tcx = hook == HookChoice::Auto;
        assert_eq!(on_tcx(&world), [usize::from(is_tcx); 2], "{hook:?}");
        assert_eq!(on_clsact(&world) > 0, !is_tcx, "{hook:?}");
        assert_is_known(&world, &format!("{hook:?}"));
    }
    // Whoever tears it down need not have made it.
    world.attach_by(HookChoice::Tcx);
    world.divide(shares(100));
    world.attach_by(HookChoice::Clsact);
    world.backend.teardown().unwrap();
    let after = world.node.state(&[]).unwrap();
    after.assert_is(&before, "after the teardown");
}

/// The kernel refuses Calico's qdisc where clsact is.
#[test]
fn clsact_makes_room_for_calicos_limit() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.attach_by(HookChoice::Clsact);
    world.divide(shares(100));
    assert!(on_clsact(&world) > 0);
    let calico = Felix {
        ingress: None,
        egress: Some("200mbit"),
    };
    let update = |world: &World| calico.update(&world.node, &world.pods["be"]);
    update(&world).unwrap_err();
    for _ in 0..2 {
        let troubles = world.backend.apply(&world.plan).unwrap().troubles;
        assert_eq!(troubles.len(), 1, "{troubles:?}");
        assert!(troubles[0].what.contains("Calico limits"), "{troubles:?}");
        update(&world).unwrap();
        assert_eq!(on_clsact(&world), 0);
    }
    assert_is_known(&world, "by its addresses");
    if !has_tcx() {
        return;
    }
    world.attach_by(HookChoice::Auto);
    world.divide(shares(100));
    assert_is_known(&world, "by tcx");
}

/// A program of others before ours lets everything pass, and asks no other: the tree has its filter.
#[test]
fn one_that_is_kept_from_choosing_is_stood_in_for() {
    let Some(mut world) = World::with_tcx() else {
        return;
    };
    world.divide(shares(100));
    let first = ForeignHook::TcxFirst;
    let verdict = Verdict::Accept;
    let foreign = ForeignProgram::attach(&world.line(), TcAttachType::Egress, first, verdict);
    let foreign = foreign.unwrap();
    assert_is_known(&world, "behind a program that accepts");
    assert!(foreign.seen().unwrap() > 0);
}

/// HTB takes a priority that names one of its classes for the answer.
#[test]
fn a_sender_that_names_a_class_is_not_heard() {
    let Some(mut world) = World::with_tcx() else {
        return;
    };
    world.divide(shares(100));
    let rule = "-t mangle -A OUTPUT -j CLASSIFY --set-class 6e71:15";
    let words: Vec<&str> = rule.split(' ').collect();
    world.node.run("iptables", &words).unwrap();
    let before = world.sent(Flow::Upload);
    let found = world.transfer_from_node();
    let after = world.sent(Flow::Upload);
    let counted = after[&SYSTEM] - before[&SYSTEM];
    assert!(counted as f64 >= 0.95 * found, "{before:?} {after:?}");
}
