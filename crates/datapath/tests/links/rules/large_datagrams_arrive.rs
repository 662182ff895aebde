use std::time::Duration;

use netqos_index::Change;
use netqos_testkit::datagrams_arrive;
use netqos_testkit::rules::{World, limiting, on_both_hooks, policy};

/// How many of ten datagrams of 60,000 bytes arrive through a rule of so many Mbit/s.
fn arrived(world: &mut World, megabits: u64, is_ipv6: bool) -> usize {
    let rule = limiting(megabits);
    world.apply(Change::Policy(policy("p", 1, "player", vec![rule])));
    let ends = (world.pod_named("free"), world.pod_named("gateway"));
    let address = world.address("gateway", is_ipv6).ip();
    // Also the time of the datagram, where it is not queued.
    let pause = Duration::from_millis(60 + 480 / megabits);
    datagrams_arrive(ends, address, 60_000, 10, pause).unwrap()
}

#[test]
fn through_the_queue_of_a_rule() {
    on_both_hooks(|hook| {
        let Some(mut world) = World::new(hook) else {
            return;
        };
        world.pod("free", "player");
        world.pod("gateway", "gateway");
        for is_ipv6 in [false, true] {
            assert_eq!(arrived(&mut world, 10, is_ipv6), 10, "{hook:?}, {is_ipv6}");
        }
    });
}

#[test]
fn through_a_rule_that_polices() {
    on_both_hooks(|hook| {
        let Some(mut world) = World::new(hook) else {
            return;
        };
        world.macvlan_pod("free", "player");
        world.macvlan_pod("gateway", "gateway");
        assert_eq!(arrived(&mut world, 1, false), 10, "{hook:?}");
    });
}
