use netqos_index::Change;

use crate::hooks::{HOOKS, on_both_hooks};
use crate::world::{TCP_SHARE, World, limiting, mbit, policy};

/// The best of three tries.
fn best(is_right: impl Fn(f64) -> bool, mut measure: impl FnMut() -> f64) -> f64 {
    let mut last = 0.0;
    for _ in 0..3 {
        last = measure();
        if is_right(last) {
            break;
        }
    }
    last
}

#[test]
fn by_tcp_and_by_udp() {
    on_both_hooks(|hook| {
        let Some(mut world) = World::new(hook) else {
            return;
        };
        world.pod("free", "player");
        world.pod("gateway", "gateway");
        world.apply(Change::Policy(policy("p", 1, "player", vec![limiting(20)])));
        let ideal = 20e6 * TCP_SHARE;
        let is_right = |rate: f64| (0.92..1.03).contains(&(rate / ideal));
        let tcp = best(is_right, || world.tcp("free", "gateway", 2.0));
        assert!(is_right(tcp), "{hook:?}: {tcp}");

        let is_right = |rate: f64| (0.95..1.03).contains(&(rate / 20e6));
        let udp = best(is_right, || {
            let report = world.udp("free", "gateway", mbit(40));
            // Of the frame the payload is a part.
            report.goodput.rate.bits_per_second() as f64 * 1.045
        });
        assert!(is_right(udp), "{hook:?}: {udp}");
    });
}

/// What does not arrive was dropped by the rule, and is in its counters: by a queue, and by a
/// policer.
#[test]
fn and_what_is_over_it_is_counted() {
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
fn a_pods_other_traffic_is_not_held_back_by_it() {
    let Some(mut world) = World::new(HOOKS[0]) else {
        return;
    };
    world.pod("free", "player");
    world.pod("gateway", "gateway");
    world.pod("other", "other");
    let rule = netqos_core::Rule {
        to: vec![crate::world::to_pod("gateway")],
        ..limiting(1)
    };
    world.apply(Change::Policy(policy("p", 1, "player", vec![rule])));
    std::thread::scope(|scope| {
        let pod = world.pod_named("free");
        let flood = world.tcp_test("gateway", 3.0);
        let flood = scope.spawn(move || pod.inside(|| flood.run(|_| ())).unwrap().unwrap());
        let outside = world.tcp("free", "other", 1.0);
        let inside = flood.join().unwrap().goodput.rate.bits_per_second() as f64;
        assert!(outside > 500e6, "{outside}");
        assert!(inside < 1.2e6, "{inside}");
    });
}
