use std::thread;
use std::time::Duration;

use netqos_classes::ClassBackend;
use netqos_core::{BitRate, Direction};
use netqos_netlink::Socket;
use netqos_traffic::Flow;

use crate::loads::loads;
use crate::world::{BE, LS, World, divided, shares};

const ALL: [&str; 3] = ["sys", "ls", "be"];

/// What arrives of a line is without the headers of Ethernet, IP and TCP: 1448 of 1514.
const PAYLOAD: f64 = 1448.0 / 1514.0;

/// Measures until it is as expected, in Mbit/s on the wire, three times at most: a machine that does
/// other things, too, may spoil a measurement.
fn assert_near(expected: &[f64], within: f64, mut measure: impl FnMut() -> Vec<f64>) {
    let mut tries = Vec::new();
    for _ in 0..3 {
        let found = measure();
        let near = |(found, expected): (&f64, &f64)| (found / PAYLOAD - expected).abs() <= within;
        if found.iter().zip(expected).all(near) {
            return;
        }
        eprintln!("not as expected: {found:?} of {expected:?}");
        tries.push(found);
    }
    panic!("{tries:?} of {expected:?}");
}

#[test]
fn when_everybody_wants_all_of_the_line() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.divide(shares(100));
    for flow in [Flow::Upload, Flow::Download] {
        for v6 in [false, true] {
            assert_near(&[40.0, 30.0, 30.0], 2.0, || {
                world.together(flow, v6, &ALL, 4.0)
            });
        }
        // Who comes first has what nobody else asks for.
        assert_near(&[70.0, 30.0], 3.0, || {
            world.together(flow, true, &["ls", "be"], 3.0)
        });
        assert_near(&[100.0], 4.0, || world.together(flow, false, &["be"], 3.0));
    }
}

#[test]
fn and_what_each_class_takes_is_counted() {
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
    // More than a queue holds, and all of it at once.
    let dropped = |world: &mut World| {
        world.backend.traffic(&line).unwrap()[&(Direction::Egress, BE)].dropped_packets
    };
    assert!(dropped(&mut world) > 0, "cubic has filled no queue");
}

#[test]
fn and_a_class_is_held_to_its_limit() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.divide(divided(100, [30, 60], [20, 50]));
    assert_near(&[50.0], 3.0, || {
        world.together(Flow::Upload, false, &["be"], 3.0)
    });
    // Changed while it stands, without anything being made anew.
    let outcome = world.divide(divided(100, [30, 60], [20, 25]));
    assert!((1..12).contains(&outcome.changes), "{outcome:?}");
    assert_eq!(world.divide(divided(100, [30, 60], [20, 25])).changes, 0);
    assert_near(&[25.0], 3.0, || {
        world.together(Flow::Download, false, &["be"], 3.0)
    });
}

#[test]
fn and_pods_have_their_parts_of_their_classes() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.pod("be2", crate::world::BE);
    world.ask("be", 20, Some(40));
    world.divide(shares(100));
    for flow in [Flow::Upload, Flow::Download] {
        // be has 20 of the 30 of its class, and what ls does not take up to its limit.
        assert_near(&[70.0, 20.0, 10.0], 3.0, || {
            world.together(flow, false, &["ls", "be", "be2"], 4.0)
        });
        assert_near(&[40.0], 3.0, || world.together(flow, false, &["be"], 3.0));
    }
}

/// By their flows, where they ask for nothing; in turns, where they ask for something, however little.
#[test]
fn and_pods_that_ask_take_turns() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.pod("be2", BE);
    world.divide(shares(100));
    let server = world.outside_address(false);
    let ways = [("be", server, 1), ("be2", server, 32)];
    let found = loads(&world, Flow::Upload, &ways);
    assert!(found[0] < 25.0, "{found:?}");
    for pod in ["be", "be2"] {
        let pod = world.plan.pods.get_mut(pod).unwrap();
        pod.asked.egress.min = BitRate::from_bits_per_second(1_000);
    }
    world.divide(shares(100));
    assert_near(&[50.0, 50.0], 5.0, || loads(&world, Flow::Upload, &ways));
}

#[test]
fn and_questions_of_the_system_do_not_wait() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.divide(shares(100));
    for flow in [Flow::Upload, Flow::Download] {
        let mut times = Vec::new();
        assert_near(&[40.0, 30.0, 30.0], 3.0, || {
            let latency = || world.latency("sys", 2);
            let (found, latency) = world.while_loaded(flow, false, &ALL, 4.0, latency);
            times.push(latency.round_trip.unwrap().p50);
            found
        });
        // A single queue would have them wait 14 ms.
        let quick = *times.iter().min().unwrap();
        assert!(quick < Duration::from_millis(1), "{flow:?}: {times:?}");
    }
}

/// What waits on a slow line waits in frames, or in little more: whoever comes next waits for no packet
/// of 64 KB. A fast one is spared the work.
#[test]
fn what_fills_a_slow_line_waits_in_small_packets() {
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
