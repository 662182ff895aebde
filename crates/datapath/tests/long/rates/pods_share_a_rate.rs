use netqos_index::Change;
use netqos_testkit::rules::{TCP_SHARE, World, limiting, mbit, policy};

use super::{Stream, UDP_SHARE, best, on_both_hooks, sum, together};

const PODS: [&str; 3] = ["a", "b", "c"];

fn world(hook: netqos_api::HookChoice, megabits: u64) -> Option<World> {
    let mut world = World::new(hook)?;
    for pod in PODS {
        world.pod(pod, "player");
    }
    world.pod("gateway", "gateway");
    let policy = policy("p", 1, "player", vec![limiting(megabits)]);
    world.apply(Change::Policy(policy));
    Some(world)
}

#[test]
fn by_udp_within_three_percent_and_in_fair_parts() {
    on_both_hooks(|hook| {
        let Some(world) = world(hook, 20) else {
            return;
        };
        let full = 20e6 * UDP_SHARE;
        let is_right = |rates: &[f64; 3]| {
            (0.97..1.03).contains(&(sum(rates) / full))
                && rates.iter().all(|rate| (0.2..0.5).contains(&(rate / full)))
        };
        let streams = PODS.map(|pod| Stream::udp(&world, pod, "gateway", mbit(20)));
        let rates = best(is_right, || together(streams, 1.5));
        println!("{hook:?}: {rates:.0?}, {:.3}", sum(&rates) / full);
        assert!(is_right(&rates), "{hook:?}: {rates:.0?}");

        // One alone has all of it.
        let is_right = |rate: &[f64; 1]| (0.97..1.03).contains(&(rate[0] / full));
        let alone = best(is_right, || together([streams[0]], 1.0));
        assert!(is_right(&alone), "{alone:.0?}");
    });
}

#[test]
fn by_tcp_in_fair_parts() {
    for megabits in [10, 100] {
        on_both_hooks(move |hook| {
            let Some(world) = world(hook, megabits) else {
                return;
            };
            let full = megabits as f64 * 1e6 * TCP_SHARE;
            let is_right = |rates: &[f64; 3]| {
                (0.92..1.04).contains(&(sum(rates) / full))
                    && rates
                        .iter()
                        .all(|rate| (0.15..0.6).contains(&(rate / full)))
            };
            let streams = PODS.map(|pod| Stream::tcp(&world, pod, "gateway"));
            let rates = best(is_right, || together(streams, 3.0));
            println!(
                "{hook:?}, {megabits}: {rates:.0?}, {:.3}",
                sum(&rates) / full
            );
            assert!(is_right(&rates), "{hook:?}, {megabits}: {rates:.0?}");
        });
    }
}

#[test]
fn by_ipv4_and_ipv6_together() {
    let Some(world) = world(super::HOOKS[0], 20) else {
        return;
    };
    let udp = Stream::udp(&world, "a", "gateway", mbit(20));
    let udp6 = Stream {
        to: world.address("gateway", true),
        ..Stream::udp(&world, "b", "gateway", mbit(20))
    };
    // Of a frame of IPv6, 20 bytes more are headers.
    let frames = |[v4, v6]: &[f64; 2]| v4 / UDP_SHARE + v6 * 1462.0 / 1400.0;
    let is_right = |rates: &[f64; 2]| {
        (0.97..1.03).contains(&(frames(rates) / 20e6)) && rates.iter().all(|rate| *rate > 5e6)
    };
    let rates = best(is_right, || together([udp, udp6], 1.5));
    assert!(is_right(&rates), "{rates:.0?}");
}
