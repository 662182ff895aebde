//! That classes share an uplink at all, by ratios within one run; the program `long` measures how exactly.

use std::thread;
use std::time::Duration;

use netqos_classes::ClassBackend;
use netqos_core::{BitRate, Direction};
use netqos_netlink::Socket;
use netqos_testkit::classes::{BE, LS, World, divided, payload, shares};
use netqos_traffic::Flow;

use super::loads::loads;

/// The part of what all got.
pub(crate) fn share_of(found: &[f64], which: usize) -> f64 {
    found[which] / found.iter().sum::<f64>()
}

/// Loads these pods at the same time. Asserts that they get this limit in Mbit/s, and returns what each gets.
pub(crate) fn load(world: &World, flow: Flow, v6: bool, pods: &[&str], limit: u64) -> Vec<f64> {
    let together = || world.together(flow, v6, pods, 3.0);
    let (found, parts) = world.baseline().beside(together);
    let part = found.iter().sum::<f64>() / (limit as f64 * payload(v6));
    let is = format!("{flow:?} of {pods:?}: {found:.2?} of {limit} Mbit/s, not {parts:.2?}");
    assert!(parts.contains(&part), "{is}");
    found
}

#[test]
fn busy_classes_share_the_uplink_by_their_guarantees() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.divide(shares(20));
    for (flow, v6) in [(Flow::Upload, false), (Flow::Download, true)] {
        let found = load(&world, flow, v6, &["sys", "ls", "be"], 20);
        for (which, share) in [0.4, 0.3, 0.3].into_iter().enumerate() {
            let off = (share_of(&found, which) - share).abs();
            assert!(off < 0.1, "{flow:?}: {found:?}");
        }
        // A higher class has first what no class asks for.
        let found = load(&world, flow, v6, &["ls", "be"], 20);
        assert!(
            (share_of(&found, 0) - 0.7).abs() < 0.1,
            "{flow:?}: {found:?}"
        );
    }
}

#[test]
fn limit_of_a_class_changes_in_place() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.divide(divided(20, [30, 60], [20, 50]));
    load(&world, Flow::Upload, false, &["be"], 10);
    let outcome = world.divide(divided(20, [30, 60], [20, 25]));
    assert!((1..12).contains(&outcome.changes), "{outcome:?}");
    assert_eq!(world.divide(divided(20, [30, 60], [20, 25])).changes, 0);
    load(&world, Flow::Download, false, &["be"], 5);
}

#[test]
fn pods_share_their_class_by_their_requests() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.pod("be2", BE);
    world.ask("be", 4, Some(8));
    world.divide(shares(20));
    for flow in [Flow::Upload, Flow::Download] {
        // be has 4 of the 6 of its class.
        let found = load(&world, flow, false, &["ls", "be", "be2"], 20);
        for (which, share) in [0.7, 0.2, 0.1].into_iter().enumerate() {
            let off = (share_of(&found, which) - share).abs();
            assert!(off < 0.07, "{flow:?}: {found:?}");
        }
        load(&world, flow, false, &["be"], 8);
    }
}

#[test]
fn traffic_of_each_class_is_counted() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.divide(shares(100));
    let line = world.line();
    let mut before = world.backend.traffic(&line).unwrap();
    for (flow, direction) in [
        (Flow::Upload, Direction::Egress),
        (Flow::Download, Direction::Ingress),
    ] {
        let rates = world.together(flow, false, &["be"], 2.0);
        // A second that is not measured comes before.
        let least = rates[0] * 1e6 / 8.0 * 2.0;
        let after = world.backend.traffic(&line).unwrap();
        let took = |class| after[&(direction, class)].bytes - before[&(direction, class)].bytes;
        let took_most = took(BE) as f64;
        assert!(
            (least..least * 2.5).contains(&took_most),
            "{took_most} of {least}"
        );
        assert!(took(LS) < 10_000, "{after:?}");
        let packets = after[&(direction, BE)].packets - before[&(direction, BE)].packets;
        assert!(
            (1_000..=1_514).contains(&(took(BE) / packets)),
            "{packets} of {took_most}"
        );
        before = after;
    }
    // Many flows of cubic fill the queue, also where one is slowed down by a busy machine.
    let server = world.outside_address(false);
    loads(&world, Flow::Upload, &[("be", server, 32)]);
    let dropped = |world: &mut World| {
        world.backend.traffic(&line).unwrap()[&(Direction::Egress, BE)].dropped_packets
    };
    assert!(dropped(&mut world) > 0, "cubic has filled no queue");
}

/// Pods without a request share by flows; pods with one, however small, take turns.
#[test]
fn pods_with_a_request_take_turns() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.pod("be2", BE);
    world.divide(shares(20));
    let server = world.outside_address(false);
    let ways = [("be", server, 1), ("be2", server, 32)];
    let found = loads(&world, Flow::Upload, &ways);
    assert!(share_of(&found, 0) < 0.25, "{found:?}");
    for pod in ["be", "be2"] {
        let pod = world.plan.pods.get_mut(pod).unwrap();
        pod.asked.egress.min = BitRate::from_bits_per_second(1_000);
    }
    world.divide(shares(20));
    let found = loads(&world, Flow::Upload, &ways);
    // A busy machine takes more from small packets. By packets it would be 0.97.
    assert!((0.35..0.9).contains(&share_of(&found, 0)), "{found:?}");
}

/// On a fast uplink GSO packets stay whole. HTB sends one in each turn, however short that is.
#[test]
fn pods_with_large_and_small_packets_share_by_bytes() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.pod("be2", BE);
    let small = ["link", "set", "eth0", "gso_max_segs", "1"];
    world.pods["be2"].run(&world.node, "ip", &small).unwrap();
    for pod in ["be", "be2"] {
        let pod = world.plan.pods.get_mut(pod).unwrap();
        pod.asked.egress.min = BitRate::from_bits_per_second(1_000);
    }
    world.divide(shares(500));
    let server = world.outside_address(false);
    let found = loads(
        &world,
        Flow::Upload,
        &[("be", server, 4), ("be2", server, 4)],
    );
    // A busy machine takes more from small packets. By packets it would be 0.97.
    assert!((0.35..0.9).contains(&share_of(&found, 0)), "{found:?}");
    println!("large and small packets, in Mbit/s: {found:.0?}");
}

/// The queue of a slow uplink holds frames, or little more, so that no packet waits for one of 64 KB.
/// A fast uplink is spared the work.
#[test]
fn queue_of_a_slow_uplink_holds_small_packets() {
    let Some(mut world) = World::new() else {
        return;
    };
    // Of each leaf with its queue: whether that cuts, and the mean size of what waits in it.
    let mut queues = |megabits: u64| {
        world.divide(shares(megabits));
        let mut socket = Socket::open().unwrap();
        let line = socket.link_by_name(&world.line()).unwrap();
        let load = world.while_loaded(Flow::Upload, false, &["be"], 2.0, || {
            let look = |_| {
                thread::sleep(Duration::from_millis(5));
                let queues = socket.qdiscs(&line).unwrap().into_iter();
                queues.filter(|it| it.handle.minor() == 0 && it.parent.major() == 0x6e71)
            };
            let looks = (0..200).flat_map(look);
            let each = looks.map(|it| {
                let waits = it.statistics;
                let mean = waits.queued_bytes.checked_div(waits.queued_packets);
                (it.tbf().is_some(), mean.unwrap_or_default())
            });
            each.collect::<Vec<_>>()
        });
        load.1
    };
    let (slow, fast) = (queues(100), queues(600));
    let largest = |of: &[(bool, u32)]| of.iter().map(|it| it.1).max();
    assert!(slow.iter().any(|(cuts, _)| *cuts), "{slow:?}");
    assert!((1..=9238).contains(&largest(&slow).unwrap()), "{slow:?}");
    assert!(
        !fast.is_empty() && fast.iter().all(|(cuts, _)| !cuts),
        "{fast:?}"
    );
}
