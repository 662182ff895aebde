//! Guarantees that become larger under load.

use std::thread;
use std::time::Duration;

use netqos_classes::ClassBackend;
use netqos_netlink::Socket;
use netqos_testkit::Bulk;
use netqos_traffic::TcpTest;

use crate::world::{BE, World, divided};

/// The minor numbers of the leaves of best-effort, for the pods that ask for nothing.
const LEAVES: [u16; 2] = [0x14, 0x15];
const BEST_EFFORT: u16 = 4;

/// Bytes that best-effort has sent at the uplink, and those of its pods that ask for nothing.
fn sent(world: &World) -> (u64, u64) {
    let mut socket = Socket::open().unwrap();
    let link = socket.link_by_name(&world.line()).unwrap();
    let classes = socket.classes(&link).unwrap();
    let of = |minors: &[u16]| {
        let classes = classes.iter();
        let classes = classes.filter(|class| minors.contains(&class.handle.minor()));
        classes.map(|class| class.statistics.bytes).sum()
    };
    (of(&[BEST_EFFORT]), of(&LEAVES))
}

/// HTB charges a leaf that is guaranteed nothing with ten seconds for a packet of 9 kB, and keeps that debt when the
/// guarantee becomes larger: the leaf borrowed, and got half of it here.
#[test]
fn guarantee_that_becomes_larger_is_given_at_once() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.pod("other", BE);
    world.ask("be", 20, None);
    world.divide(divided(40, [0, 100], [50, 50]));
    let test = TcpTest {
        streams: 2,
        omit: Duration::ZERO,
        duration: Duration::from_secs(1),
        congestion_control: Some("cubic".to_owned()),
        ..TcpTest::new(world.outside_address(false))
    };
    let _bulk = ["be", "other"].map(|name| {
        let test = test.clone();
        Bulk::start(world.pods[name].netns(), move || drop(test.run(|_| ()))).unwrap()
    });
    thread::sleep(Duration::from_secs(2));
    world.ask("be", 2, None);
    let outcome = world.backend.apply(&world.plan).unwrap();
    assert_eq!(outcome.troubles, []);
    let before = sent(&world);
    thread::sleep(Duration::from_secs(2));
    let after = sent(&world);
    let part = (after.1 - before.1) as f64 / (after.0 - before.0) as f64;
    println!("{:.0} % for the pods with 18 of 20 Mbit/s", 100.0 * part);
    assert!(part > 0.65, "{part}: {before:?} {after:?}");
}
