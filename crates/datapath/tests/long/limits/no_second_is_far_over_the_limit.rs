use std::time::Duration;

use netqos_api::bandwidth::CHOOSE_BURSTS;
use netqos_api::{BandwidthConfig, EgressWay, Environment, HookChoice};
use netqos_core::{BitRate, Direction};
use netqos_traffic::{Sample, TcpTest, UdpTest};
use serde_json::json;

use super::{DIRECTIONS, HOOKS, Link, TCP_SHARE, expect, flow, within_three_tries};

/// What a datagram of 1,400 bytes carries.
const UDP_SHARE: f64 = 1400.0 / 1442.0;
/// Samples are of a tenth of a second.
const SECOND: usize = 10;

#[test]
fn whatever_burst_the_runtime_makes_up() {
    let Some(link) = Link::new() else { return };
    let cases = HOOKS
        .into_iter()
        .flat_map(|hook| CHOOSE_BURSTS.map(|burst| (hook, burst)));
    for (hook, burst) in cases {
        for megabits in [1_u64, 5, 20] {
            let rate = megabits * 1_000_000;
            as_a_runtime_says(&link, hook, rate, burst);
            for direction in DIRECTIONS {
                first_second(&link, direction, rate);
            }
        }
    }
}

/// Whatever second, by tenths, of a flood that begins on a link at rest. Datagrams, since those
/// that arrive are read at once, where TCP's wait for what was lost before them.
#[test]
fn wherever_the_second_begins() {
    let Some(link) = Link::new() else { return };
    let cases = HOOKS
        .into_iter()
        .flat_map(|hook| [1, 10].map(|megabits| (hook, megabits * 1_000_000)));
    for ((hook, rate), burst) in cases.zip(CHOOSE_BURSTS.into_iter().cycle()) {
        as_a_runtime_says(&link, hook, rate, burst);
        within_three_tries(|| {
            for (direction, samples) in DIRECTIONS.into_iter().zip(floods(&link, rate)) {
                let seconds: Vec<_> = samples
                    .windows(SECOND)
                    .map(|second| on_the_wire(second) / rate as f64)
                    .collect();
                expect(seconds.len() > SECOND, || format!("{samples:?}"))?;
                expect(
                    seconds.iter().all(|share| (0.90..1.10).contains(share)),
                    || format!("{hook:?}, {direction} of {rate} bit/s: {seconds:.3?}"),
                )?;
            }
            Ok(())
        });
    }
}

/// Holds the pod to this rate in bit/s each way, with this burst in bits.
fn as_a_runtime_says(link: &Link, hook: HookChoice, rate: u64, burst: u64) {
    let config = json!({"runtimeConfig": {"bandwidth": {
        "ingressRate": rate, "ingressBurst": burst, "egressRate": rate, "egressBurst": burst,
    }}});
    let config =
        BandwidthConfig::parse(config.as_object().unwrap(), Environment::default()).unwrap();
    link.limit(config.limits, hook, EgressWay::Pod);
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

/// What arrives of twice the limit, both ways at the same time.
fn floods(link: &Link, rate: u64) -> [Vec<Sample>; 2] {
    let twice = BitRate::from_bits_per_second(2 * rate);
    let pod = &link.pod;
    std::thread::scope(|scope| {
        let floods = DIRECTIONS.map(|direction| {
            let test = UdpTest {
                flow: flow(direction),
                omit: Duration::ZERO,
                duration: Duration::from_millis(2500),
                ..UdpTest::new(link.server.local_addr(), twice)
            };
            scope.spawn(move || pod.inside(|| test.run(|_| ())).unwrap().unwrap())
        });
        floods.map(|flood| flood.join().unwrap().goodput.samples)
    })
}

/// The rate of some intervals in bit/s at layer 2.
fn on_the_wire(samples: &[Sample]) -> f64 {
    let bytes: u64 = samples.iter().map(|sample| sample.received.bytes()).sum();
    let elapsed: Duration = samples.iter().map(|sample| sample.elapsed).sum();
    bytes as f64 * 8.0 / elapsed.as_secs_f64() / UDP_SHARE
}
