use netqos_core::{ObjectName, PodId, Rule};
use netqos_datapath::rules::Outcome;
use netqos_index::Change;
use netqos_testkit::rules::{HOOKS, World, limiting, mbit, on_both_hooks, policy, to_pod};

use super::{assert_limited, assert_tcp_limited};

fn has_queue(outcome: &Outcome) -> bool {
    outcome.meters.values().all(|meter| meter.queue.is_some())
}

#[test]
fn rule_rate_limits_tcp_and_udp() {
    on_both_hooks(|hook| {
        let Some(mut world) = World::new(hook) else {
            return;
        };
        world.pod("free", "player");
        world.pod("gateway", "gateway");
        world.apply(Change::Policy(policy("p", 1, "player", vec![limiting(20)])));
        assert_tcp_limited(&world, "free", "gateway", 20);
    });
}

/// A pod without a host veth cannot queue: while it is under the rule, all its pods are policed.
#[test]
fn pods_share_a_rule_rate_queued_or_policed() {
    on_both_hooks(|hook| {
        let Some(mut world) = World::new(hook) else {
            return;
        };
        world.macvlan_pod("far", "gateway");
        world.pod("near", "gateway");
        world.pod("a", "player");
        world.pod("b", "player");
        let outcome = world.apply(Change::Policy(policy("p", 1, "player", vec![limiting(20)])));
        assert!(has_queue(&outcome), "{hook:?}");
        assert_limited(&world, &[("a", "near"), ("b", "near")], 20);

        world.macvlan_pod("macvlan", "player");
        let outcome = world.apply(unrelated());
        assert!(!has_queue(&outcome), "{hook:?}");
        assert_limited(&world, &[("a", "near"), ("macvlan", "far")], 20);

        let gone = PodId {
            name: ObjectName::new("games", "macvlan"),
            uid: "uid-macvlan".into(),
        };
        let outcome = world.apply(Change::PodGone(gone));
        assert!(has_queue(&outcome), "{hook:?}");
        assert_limited(&world, &[("a", "near")], 20);
    });
}

/// A change that concerns no pod; what changed before it is applied with it.
fn unrelated() -> Change {
    Change::Service(netqos_core::objects::Service {
        name: ObjectName::new("games", "unrelated"),
        addresses: Default::default(),
        ports: Vec::new(),
    })
}

/// The rule's counters hold all that does not arrive, with a queue and with a policer.
#[test]
fn drops_of_a_rule_are_counted() {
    for is_veth in [true, false] {
        std::thread::spawn(move || {
            let Some(mut world) = World::new(HOOKS[0]) else {
                return;
            };
            if is_veth {
                world.pod("free", "player");
                world.pod("gateway", "gateway");
            } else {
                world.macvlan_pod("free", "player");
                world.macvlan_pod("gateway", "gateway");
            }
            let limit = policy("p", 1, "player", vec![limiting(10)]);
            let outcome = world.apply(Change::Policy(limit));
            let queues = outcome.meters.values().all(|meter| meter.queue.is_some());
            assert_eq!(queues, is_veth);
            let report = world.udp("free", "gateway", mbit(40));
            let counts = world.rules.counts().unwrap();
            let [count] = counts.as_slice() else {
                panic!("{counts:?}");
            };
            assert!(report.lost > report.sent / 4, "{report:?}");
            let told = count.dropped_packets as f64 / report.lost as f64;
            assert!((0.98..1.02).contains(&told), "{count:?}, {report:?}");
            let each = count.dropped_bytes as f64 / count.dropped_packets as f64;
            let sent = count.bytes as f64 / count.packets as f64;
            assert!((0.98..1.02).contains(&(each / sent)), "{count:?}");
        })
        .join()
        .unwrap();
    }
}

#[test]
fn other_traffic_of_a_limited_pod_is_free() {
    let Some(mut world) = World::new(HOOKS[0]) else {
        return;
    };
    world.pod("free", "player");
    world.pod("gateway", "gateway");
    world.pod("other", "other");
    let rule = Rule {
        to: vec![to_pod("gateway")],
        ..limiting(5)
    };
    world.apply(Change::Policy(policy("p", 1, "player", vec![rule])));
    std::thread::scope(|scope| {
        let (pod, test) = (world.pod_named("free"), world.tcp_test("other", 1.0));
        let other = scope.spawn(move || pod.inside(|| test.run(|_| ())).unwrap().unwrap());
        assert_limited(&world, &[("free", "gateway")], 5);
        let other = other.join().unwrap();
        assert!(other.rate() > mbit(50), "{other} beside 5 Mbit/s");
    });
}
