use netqos_api::bandwidth::CHOOSE_BURSTS;
use netqos_api::{BandwidthConfig, EgressWay, Environment, HookChoice};
use netqos_core::Direction;
use netqos_traffic::TcpTest;
use serde_json::json;
use std::time::Duration;

use crate::{DIRECTIONS, Link, expect, within_three_tries};

#[test]
fn whatever_burst_the_runtime_makes_up() {
    let Some(link) = Link::new() else { return };
    for burst in CHOOSE_BURSTS {
        for megabits in [5_u64, 20] {
            let rate = megabits * 1_000_000;
            let config = json!({"runtimeConfig": {"bandwidth": {
                "ingressRate": rate, "ingressBurst": burst, "egressRate": rate, "egressBurst": burst,
            }}});
            let config =
                BandwidthConfig::parse(config.as_object().unwrap(), Environment::default())
                    .unwrap();
            link.limit(config.limits, HookChoice::Auto, EgressWay::Pod);
            for direction in DIRECTIONS {
                first_second(&link, direction, rate);
            }
        }
    }
}

/// The first second carries no more than 10 % over the limit, and no less than most of it.
fn first_second(link: &Link, direction: Direction, rate: u64) {
    within_three_tries(|| {
        let test = TcpTest {
            omit: Duration::ZERO,
            duration: Duration::from_secs(1),
            ..link.tcp_test(direction, 1.0)
        };
        let report = link.pod.inside(|| test.run(|_| ())).unwrap().unwrap();
        let share = report.goodput.rate.bits_per_second() as f64 / rate as f64;
        expect((0.70..1.10).contains(&share), || {
            format!(
                "{direction} of {rate} bit/s: {:.1} % in the first second",
                share * 100.0
            )
        })
    });
}
