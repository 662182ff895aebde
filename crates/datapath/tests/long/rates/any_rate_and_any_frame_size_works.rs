use std::time::Duration;

use netqos_core::{Bandwidth, BitRate, ByteCount, Reason, Rule};
use netqos_index::Change;
use netqos_testkit::rules::{TCP_SHARE, World, limiting, policy, rule};
use netqos_traffic::{TcpTest, UdpTest};

use super::{best, on_both_hooks, without_rules};

fn world(hook: netqos_api::HookChoice) -> Option<World> {
    let mut world = World::new(hook)?;
    world.pod("free", "player");
    world.pod("gateway", "gateway");
    Some(world)
}

/// A rate and a burst in the API's units: kilobits per second, and kilobits.
fn kilobits(rate: u64, burst: u64) -> Rule {
    Rule {
        bandwidth: Some(Bandwidth {
            rate: BitRate::from_bits_per_second(rate * 1000),
            burst: Some(ByteCount::from_bytes(burst * 125)),
        }),
        ..rule()
    }
}

#[test]
fn one_megabit_with_a_second_of_burst() {
    on_both_hooks(|hook| {
        let Some(mut world) = world(hook) else {
            return;
        };
        let rule = kilobits(1000, 1000);
        world.apply(Change::Policy(policy("p", 1, "player", vec![rule])));
        let test = TcpTest {
            // The burst, and what it put in the queue.
            omit: Duration::from_millis(1500),
            ..world.tcp_test("gateway", 5.0)
        };
        let is_right = |share: &f64| (0.88..1.12).contains(share);
        let share = best(is_right, || {
            let report = world.run("free", || test.run(|_| ()).unwrap());
            report.goodput.rate.bits_per_second() as f64 / (1e6 * TCP_SHARE)
        });
        println!("{hook:?}: {share:.3}");
        assert!(is_right(&share), "{hook:?}: {share}");
    });
}

#[test]
fn a_burst_that_keeps_from_the_rate_is_raised_and_said_to_be() {
    on_both_hooks(|hook| {
        let Some(mut world) = world(hook) else {
            return;
        };
        let rule = kilobits(20_000, 100);
        let outcome = world.try_apply(Change::Policy(policy("p", 1, "player", vec![rule])));
        let reasons: Vec<Reason> = outcome.problems.iter().map(|p| p.reason).collect();
        assert_eq!(reasons, [Reason::BurstRaised], "{:#?}", outcome.problems);
        println!("{}", outcome.problems[0]);
        let full = 20e6 * TCP_SHARE;
        let is_right = |rate: &f64| (0.92..1.04).contains(&(rate / full));
        let rate = best(is_right, || world.tcp("free", "gateway", 1.5));
        assert!(is_right(&rate), "{hook:?}: {rate}");

        // A burst that is large enough is taken as it is.
        let rule = kilobits(20_000, 2000);
        let outcome = world.apply(Change::Policy(policy("p", 1, "player", vec![rule])));
        let burst = outcome.meters.values().next().unwrap().burst;
        assert_eq!(burst.bytes(), 250_000);
    });
}

#[test]
fn a_rate_that_is_more_than_the_pod_can_send_does_not_slow_it_down() {
    let Some(mut world) = world(super::HOOKS[0]) else {
        return;
    };
    let mut with = |megabits: Option<u64>| {
        world.apply(match megabits {
            Some(megabits) => Change::Policy(policy("p", 1, "player", vec![limiting(megabits)])),
            None => without_rules(),
        });
        world.tcp("free", "gateway", 0.7)
    };
    let is_right = |[free, five, hundred]: &[f64; 3]| {
        *five > 0.7 * free.min(5e9 * TCP_SHARE) && *five < 5.15e9 && *hundred > 0.3 * free
    };
    let rates = best(is_right, || {
        [None, Some(5_000), Some(100_000)].map(&mut with)
    });
    println!("{rates:.0?}");
    assert!(is_right(&rates), "{rates:.0?}");
}

#[test]
fn frames_of_nine_thousand_bytes_pass() {
    on_both_hooks(|hook| {
        let Some(mut world) = World::new(hook) else {
            return;
        };
        for (name, kind) in [("free", "player"), ("gateway", "gateway")] {
            let pod = world.node.pod_of_mtu(name, 9000).unwrap();
            world.register(pod, kind, true);
        }
        for megabits in [1, 100] {
            let rule = limiting(megabits);
            world.apply(Change::Policy(policy("p", 1, "player", vec![rule])));
            // Frame by frame, below the rate: only their size could be against them.
            let test = UdpTest {
                size: 8900,
                omit: Duration::ZERO,
                duration: Duration::from_secs(2),
                ..UdpTest::new(
                    world.address("gateway", false),
                    BitRate::from_bits_per_second(megabits * 700_000),
                )
            };
            let report = best(
                |report: &netqos_traffic::UdpReport| report.lost == 0,
                || world.run("free", || test.run(|_| ()).unwrap()),
            );
            assert_eq!(report.lost, 0, "{hook:?}, {megabits}: {report}");
            assert!(report.received > 10);

            let full = megabits as f64 * 1e6 * 8948.0 / 9014.0;
            let test = TcpTest {
                omit: Duration::from_millis(if megabits == 1 { 2500 } else { 700 }),
                ..world.tcp_test("gateway", if megabits == 1 { 6.0 } else { 1.0 })
            };
            // At 1 Mbit/s, a frame is 72 ms.
            let is_right = |share: &f64| (0.88..1.12).contains(share);
            let share = best(is_right, || {
                let report = world.run("free", || test.run(|_| ()).unwrap());
                report.goodput.rate.bits_per_second() as f64 / full
            });
            println!("{hook:?}, {megabits}: {share:.3}");
            assert!(is_right(&share), "{hook:?}, {megabits}: {share:.3}");
        }
    });
}
