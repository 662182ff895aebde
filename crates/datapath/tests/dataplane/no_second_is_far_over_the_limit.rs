use netqos_api::bandwidth::CHOOSE_BURSTS;
use netqos_api::{BandwidthConfig, EgressWay, Environment};
use netqos_core::Direction;
use netqos_traffic::TcpTest;
use serde_json::json;
use std::time::Duration;

use crate::{DIRECTIONS, HOOKS, Link, TCP_SHARE, expect, within_three_tries};

#[test]
fn whatever_burst_the_runtime_makes_up() {
    let Some(link) = Link::new() else { return };
    let cases = HOOKS
        .into_iter()
        .flat_map(|hook| CHOOSE_BURSTS.map(|burst| (hook, burst)));
    for (hook, burst) in cases {
        for megabits in [1_u64, 5, 20] {
            let rate = megabits * 1_000_000;
            let config = json!({"runtimeConfig": {"bandwidth": {
                "ingressRate": rate, "ingressBurst": burst, "egressRate": rate, "egressBurst": burst,
            }}});
            let config =
                BandwidthConfig::parse(config.as_object().unwrap(), Environment::default())
                    .unwrap();
            link.limit(config.limits, hook, EgressWay::Pod);
            for direction in DIRECTIONS {
                first_second(&link, direction, rate);
            }
        }
    }
}

/// The first second carries no more than 10 % over the limit on the wire, and no less than most of
/// it.
fn first_second(link: &Link, direction: Direction, rate: u64) {
    within_three_tries(|| {
        let test = TcpTest {
            omit: Duration::ZERO,
            duration: Duration::from_secs(1),
            ..link.tcp_test(direction, 1.0)
        };
        let report = link.pod.inside(|| test.run(|_| ())).unwrap().unwrap();
        let on_the_wire = report.goodput.rate.bits_per_second() as f64 / TCP_SHARE;
        let share = on_the_wire / rate as f64;
        expect((0.60..1.10).contains(&share), || {
            format!(
                "{direction} of {rate} bit/s: {:.1} % in the first second",
                share * 100.0
            )
        })
    });
}
