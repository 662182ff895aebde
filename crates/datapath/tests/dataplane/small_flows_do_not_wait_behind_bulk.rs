use std::time::Duration;

use netqos_api::{EgressWay, HookChoice};
use netqos_core::{Direction, Limit};

use crate::{DIRECTIONS, HOOKS, Link, both, expect, mbit, within_three_tries};

/// The median round trip while TCP saturates the limit.
fn median(link: &Link, direction: Direction) -> Duration {
    let bulk = link.tcp_test(direction, 2.0);
    let report = link.latency_during(Duration::from_millis(5), move || {
        bulk.run(|_| ()).unwrap();
    });
    report.round_trip.map_or(Duration::MAX, |trips| trips.p50)
}

#[test]
fn with_either_hook() {
    let Some(link) = Link::new() else { return };
    for hook in HOOKS {
        for megabits in [10, 100] {
            link.limit(both(Limit::of(mbit(megabits))), hook, EgressWay::Pod);
            for direction in DIRECTIONS {
                within_three_tries(|| {
                    let median = median(&link, direction);
                    expect(median < Duration::from_millis(2), || {
                        format!("{hook:?}, {direction} of {megabits} Mbit/s: {median:?}")
                    })
                });
            }
        }
    }
}

/// That the test before can fail: without the program, requests do wait.
#[test]
fn and_without_programs_they_do_wait() {
    let Some(link) = Link::new() else { return };
    link.limit(both(Limit::of(mbit(10))), HookChoice::None, EgressWay::Pod);
    let median = median(&link, Direction::Ingress);
    assert!(median > Duration::from_millis(5), "{median:?}");
}
