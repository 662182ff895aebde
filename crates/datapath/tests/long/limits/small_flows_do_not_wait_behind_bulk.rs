use std::time::Duration;

use netqos_api::{EgressWay, HookChoice};
use netqos_core::{Direction, Limit};
use netqos_traffic::Quantiles;

use super::{DIRECTIONS, HOOKS, Link, both, expect, mbit, within_three_tries};

/// The round trips while TCP saturates the limit.
fn round_trips(link: &Link, direction: Direction) -> Quantiles {
    let bulk = link.tcp_test(direction, 2.0);
    let report = link.latency_during(Duration::from_millis(5), move || {
        bulk.run(|_| ()).unwrap();
    });
    report.round_trip.unwrap()
}

#[test]
fn with_either_hook() {
    let Some(link) = Link::new() else { return };
    for hook in HOOKS {
        for megabits in [10, 100] {
            link.limit(both(Limit::of(mbit(megabits))), hook, EgressWay::Pod);
            for direction in DIRECTIONS {
                within_three_tries(|| {
                    let median = round_trips(&link, direction).p50;
                    expect(median < Duration::from_millis(2), || {
                        format!("{hook:?}, {direction} of {megabits} Mbit/s: {median:?}")
                    })
                });
            }
        }
    }
}

#[test]
fn out_of_a_pod_by_way_of_an_ifb() {
    let Some(link) = Link::new() else { return };
    is_far_below_a_plain_queue(&link, EgressWay::Ifb, Direction::Egress);
}

/// Which is by way of an ifb too, in the pod's namespace.
#[test]
fn into_a_macvlan() {
    let Some(link) = Link::by_macvlan() else {
        return;
    };
    is_far_below_a_plain_queue(&link, EgressWay::Pod, Direction::Ingress);
}

/// That the tests before can fail: without the program, requests do wait.
#[test]
fn and_without_programs_they_do_wait() {
    let Some(link) = Link::new() else { return };
    link.limit(both(Limit::of(mbit(10))), HookChoice::None, EgressWay::Pod);
    let median = round_trips(&link, Direction::Ingress).p50;
    assert!(median > Duration::from_millis(5), "{median:?}");
}

/// All but one request in a hundred take less than half of what half of them take in a plain queue.
fn is_far_below_a_plain_queue(link: &Link, egress: EgressWay, direction: Direction) {
    let limits = both(Limit::of(mbit(10)));
    link.limit(limits, HookChoice::None, egress);
    let plain = round_trips(link, direction);
    for hook in HOOKS {
        link.limit(limits, hook, egress);
        within_three_tries(|| {
            let ranked = round_trips(link, direction);
            expect(ranked.p99 < plain.p50 / 2, || {
                format!("{hook:?}, {direction}: {ranked}, and in a plain queue {plain}")
            })
        });
    }
}
