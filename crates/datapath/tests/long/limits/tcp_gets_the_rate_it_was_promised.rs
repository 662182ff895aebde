use netqos_api::{EgressWay, HookChoice};
use netqos_core::Limit;

use super::{DIRECTIONS, HOOKS, Link, TCP_SHARE, both, expect, mbit, within_three_tries};

fn is_exact(link: &Link, megabits: u64, what: &str) {
    for direction in DIRECTIONS {
        within_three_tries(|| {
            let ideal = mbit(megabits).bits_per_second() as f64 * TCP_SHARE;
            let share = link.tcp(direction, 1.5) / ideal;
            expect((0.90..1.05).contains(&share), || {
                format!(
                    "{what}, {direction} of {megabits} Mbit/s: {:.1} % of ideal",
                    share * 100.0
                )
            })
        });
    }
}

#[test]
fn both_ways_with_either_hook() {
    let Some(link) = Link::new() else { return };
    for hook in HOOKS {
        for megabits in [10, 100, 1000] {
            link.limit(both(Limit::of(mbit(megabits))), hook, EgressWay::Pod);
            is_exact(&link, megabits, &format!("{hook:?}"));
        }
    }
}

#[test]
fn without_programs_too() {
    let Some(link) = Link::new() else { return };
    for megabits in [10, 100] {
        link.limit(
            both(Limit::of(mbit(megabits))),
            HookChoice::None,
            EgressWay::Pod,
        );
        is_exact(&link, megabits, "plain");
    }
}
