use netqos_api::{EgressWay, HookChoice};
use netqos_core::{Attachment, Limit, Limits};
use netqos_datapath::{HostLinks, LimitDatapath, Paths, Request};
use netqos_index::Change;
use netqos_testkit::rules::{TCP_SHARE, World, limiting, mbit, policy};

use super::{Stream, UDP_SHARE, best, on_both_hooks, sum, together};

const WAYS: [EgressWay; 2] = [EgressWay::Pod, EgressWay::Ifb];

fn hold(world: &World, pod: &str, megabits: u64, egress: EgressWay, hook: HookChoice) {
    let pod = world.pod_named(pod);
    let request = Request {
        attachment: &Attachment::try_new("net", pod.name(), "eth0").unwrap(),
        netns: &pod.netns(),
        ends: None,
        host_links: HostLinks::Unknown,
        limits: Limits {
            ingress: None,
            egress: Some(Limit::of(mbit(megabits))),
        },
        egress,
        hook,
        is_running: false,
    };
    let mut datapath = LimitDatapath::open(Paths::from_variables(|_| None)).unwrap();
    datapath.apply(&request).unwrap();
}

/// A pod's limit before the rule and after it: who comes first must not matter.
#[test]
fn below_and_above_the_rules_rate() {
    on_both_hooks(|hook| {
        let Some(mut world) = World::new(hook) else {
            return;
        };
        world.pod("first", "player");
        world.pod("second", "player");
        world.pod("gateway", "gateway");
        hold(&world, "first", 100, WAYS[0], hook);
        let rule = policy("p", 1, "player", vec![limiting(20)]);
        world.apply(Change::Policy(rule));
        for (pod, egress) in ["first", "second"].into_iter().zip(WAYS) {
            for (megabits, expected) in [(10, 10), (30, 20)] {
                hold(&world, pod, megabits, egress, hook);
                let full = expected as f64 * 1e6 * TCP_SHARE;
                let is_right = |rate: &[f64; 1]| (0.92..1.04).contains(&(rate[0] / full));
                let rate = best(is_right, || {
                    together([Stream::tcp(&world, pod, "gateway")], 1.5)
                });
                assert!(
                    is_right(&rate),
                    "{hook:?}, {egress:?}, {pod} of {megabits}: {rate:.0?}"
                );
            }
        }
    });
}

#[test]
fn two_pods_of_fifteen_get_twenty_together_and_neither_more_than_fifteen() {
    on_both_hooks(|hook| {
        for egress in WAYS {
            std::thread::spawn(move || {
                let Some(mut world) = World::new(hook) else {
                    return;
                };
                world.pod("a", "player");
                world.pod("b", "player");
                world.pod("gateway", "gateway");
                for pod in ["a", "b"] {
                    hold(&world, pod, 15, egress, hook);
                }
                let rule = policy("p", 1, "player", vec![limiting(20)]);
                world.apply(Change::Policy(rule));

                let tcp = ["a", "b"].map(|pod| Stream::tcp(&world, pod, "gateway"));
                let udp = ["a", "b"].map(|pod| Stream::udp(&world, pod, "gateway", mbit(20)));
                for (streams, share) in [(tcp, TCP_SHARE), (udp, UDP_SHARE)] {
                    let full = 20e6 * share;
                    let is_right = |rates: &[f64; 2]| {
                        (0.92..1.03).contains(&(sum(rates) / full))
                            && rates.iter().all(|rate| *rate < 15e6 * share * 1.03)
                    };
                    let rates = best(is_right, || together(streams, 2.0));
                    println!(
                        "{hook:?}, {egress:?}: {rates:.0?}, {:.3}",
                        sum(&rates) / full
                    );
                    assert!(is_right(&rates), "{hook:?}, {egress:?}: {rates:.0?}");

                    let full = 15e6 * share;
                    let is_right = |rate: &[f64; 1]| (0.92..1.03).contains(&(rate[0] / full));
                    let alone = best(is_right, || together([streams[0]], 1.0));
                    assert!(is_right(&alone), "{hook:?}, {egress:?}: alone {alone:.0?}");
                }
            })
            .join()
            .unwrap();
        }
    });
}
