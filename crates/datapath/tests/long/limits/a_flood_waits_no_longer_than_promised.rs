use std::time::Duration;

use netqos_api::{EgressWay, HookChoice};
use netqos_core::Limit;

use super::{DIRECTIONS, HOOKS, Link, both, expect, mbit, within_three_tries};

/// Floods at twice the limit: the longest wait of all but one in a hundred, and that the limit is
/// used. Without programs TBF's own queue holds as many bytes.
#[test]
fn of_datagrams_at_twice_the_limit() {
    let Some(link) = Link::new() else { return };
    let ways = HOOKS.into_iter().chain([HookChoice::None]);
    for hook in ways {
        for (limit, longest) in [
            // 50 ms and one GSO packet of 56 ms is what was promised; TBF alone comes to 85 ms, the
            // programs to 29.
            (Limit::of(mbit(10)), 106),
            (
                Limit {
                    latency: Some(Duration::from_millis(5)),
                    ..Limit::of(mbit(100))
                },
                40,
            ),
        ] {
            link.limit(both(limit), hook, EgressWay::Pod);
            let longest = if hook == HookChoice::None {
                longest
            } else {
                longest.min(65)
            };
            for direction in DIRECTIONS {
                within_three_tries(|| {
                    let bits = limit.rate.bits_per_second();
                    let report = link.udp(direction, mbit(bits / 500_000));
                    let used = report.goodput.rate.bits_per_second() as f64 / bits as f64;
                    let wait = report.delay.map_or(Duration::MAX, |delay| delay.p99);
                    // 1,400 of the 1,442 bytes that TBF counts are payload.
                    expect((0.80..1.0).contains(&used), || {
                        format!(
                            "{hook:?}, {direction} of {}: {:.1} % used",
                            limit.rate,
                            used * 100.0
                        )
                    })?;
                    expect(wait <= Duration::from_millis(longest), || {
                        format!("{hook:?}, {direction} of {}: waits {wait:?}", limit.rate)
                    })
                });
            }
        }
    }
}
