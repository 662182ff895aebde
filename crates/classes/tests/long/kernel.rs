use std::time::Duration;

use netqos_testkit::classes::{World, divided, shares};
use netqos_traffic::Flow;

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
    world.pod("be2", netqos_testkit::classes::BE);
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
