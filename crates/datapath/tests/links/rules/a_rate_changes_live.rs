use std::thread;
use std::time::Duration;

use netqos_core::Rule;
use netqos_index::Change;
use netqos_testkit::BacklogDrops;
use netqos_testkit::rules::{World, limiting, mbit, on_both_hooks, policy, to_pod};
use netqos_traffic::UdpTest;

use super::assert_limited;

fn without_rules() -> Change {
    Change::PolicyGone(policy("p", 1, "", vec![]).name)
}

fn rule(megabits: u64) -> Change {
    let rule = Rule {
        to: vec![to_pod("gateway")],
        ..limiting(megabits)
    };
    Change::Policy(policy("p", 1, "player", vec![rule]))
}

#[test]
fn without_a_lost_packet_of_other_traffic() {
    on_both_hooks(|hook| {
        let Some(mut world) = World::new(hook) else {
            return;
        };
        world.pod("free", "player");
        world.pod("gateway", "gateway");
        world.pod("other", "other");
        let pod = world.node.pod("bystander").unwrap();
        world.register(pod, "other", true);

        // A packet each 2 ms, from the pod that the rule is for and from another one.
        let steady = |world: &World, from: &str| {
            let test = UdpTest {
                omit: Duration::ZERO,
                duration: Duration::from_millis(2500),
                size: 200,
                ..UdpTest::new(world.address("other", false), mbit(1))
            };
            (world.pod_named(from).netns(), test)
        };
        let (reports, drops) = {
            world.apply(rule(10));
            let (from, beside) = (steady(&world, "free"), steady(&world, "bystander"));
            let bulk = world.tcp_test("gateway", 1.8);
            let bulk = (world.pod_named("free").netns(), bulk);
            let world = &mut world;
            let drops = BacklogDrops::count().unwrap();
            let reports = thread::scope(|scope| {
                let steady = [from, beside].map(|(netns, test)| {
                    scope.spawn(move || {
                        let _inside = enter(netns);
                        test.run(|_| ()).unwrap()
                    })
                });
                let bulk = scope.spawn(move || {
                    let _inside = enter(bulk.0);
                    bulk.1.run(|_| ()).unwrap()
                });
                for megabits in [50, 100, 10, 200, 5, 20] {
                    thread::sleep(Duration::from_millis(300));
                    let outcome = world.apply(rule(megabits));
                    let meter = outcome.meters.values().next().unwrap();
                    assert_eq!(meter.rate, mbit(megabits));
                }
                thread::sleep(Duration::from_millis(300));
                world.apply(without_rules());
                bulk.join().unwrap();
                steady.map(|steady| steady.join().unwrap())
            });
            (reports, drops.so_far().unwrap())
        };
        for report in &reports {
            assert!(report.lost <= drops, "{hook:?}: {report}");
        }

        for megabits in [10, 50] {
            world.apply(rule(megabits));
            assert_limited(&world, &[("free", "gateway")], megabits);
        }
        world.apply(without_rules());
        // Three times the last rate, and no limit known.
        let free = world.tcp("free", "gateway", 0.5);
        assert!(free > 150e6, "{hook:?}: {free}");
    });
}

fn enter(netns: std::path::PathBuf) -> netqos_netlink::Entered {
    netqos_netlink::Namespace::open(netns)
        .unwrap()
        .enter()
        .unwrap()
}
