//! Packets lost when an uplink in use is divided, and when it no longer is.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use netqos_classes::ClassBackend;
use netqos_core::BitRate;
use netqos_testkit::classes::{World, shares};
use netqos_testkit::{Changes, assert_loses_no_more_than_tc};
use netqos_traffic::{Flow, UdpTest};

const CHANGES: Changes = Changes {
    pairs: 8,
    stays: Duration::from_millis(30),
    takes: Duration::from_millis(40),
};

/// The number of datagrams of a stream of 10,000 a second between a pod and the outside that are lost meanwhile.
fn lost(world: &mut World, flow: Flow, mut act: impl FnMut(&mut World, bool)) -> u64 {
    let netns = netqos_netlink::Namespace::open(world.pods["ls"].netns()).unwrap();
    let server = world.outside_address(false);
    let stream = move |duration| {
        let _inside = netns.enter().unwrap();
        let test = UdpTest {
            flow,
            omit: Duration::ZERO,
            duration,
            size: 200,
            ..UdpTest::new(server, BitRate::from_bits_per_second(16_000_000))
        };
        test.run(|_| ()).unwrap().lost
    };
    let mut act = |comes| act(world, comes);
    CHANGES.timed(&mut act).lost(stream, act).unwrap()
}

/// The kernel takes the link down for a moment when it adds or deletes the root qdisc.
#[test]
fn first_division_loses_no_more_packets_than_tc() {
    let Some(world) = World::new() else {
        return;
    };
    let uplink = world.line();
    let by_tc = |world: &mut World, comes: bool| {
        let words: &[&str] = match comes {
            true => &[
                "add dev UPLINK root handle 1: htb default 2",
                "add dev UPLINK clsact",
            ],
            false => &["del dev UPLINK root", "del dev UPLINK clsact"],
        };
        for words in words {
            let words = format!("qdisc {}", words.replace("UPLINK", &uplink));
            world
                .node
                .run("tc", &words.split(' ').collect::<Vec<_>>())
                .unwrap();
        }
    };
    let by_netqos = |world: &mut World, comes: bool| {
        let shares = comes.then(|| (uplink.clone(), shares(100)));
        world.plan.lines = BTreeMap::from_iter(shares);
        let outcome = world.backend.apply(&world.plan).unwrap();
        assert_eq!(outcome.troubles, []);
    };
    let world = RefCell::new(world);
    for flow in [Flow::Upload, Flow::Download] {
        assert_loses_no_more_than_tc(
            flow,
            || lost(&mut world.borrow_mut(), flow, by_netqos),
            || lost(&mut world.borrow_mut(), flow, by_tc),
        );
    }
}
