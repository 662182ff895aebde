//! Another process raises the bucket of a leaf's token bucket, and packets wait that the right one never lets pass.

use std::time::{Duration, Instant};
use std::{fs, thread};

use netqos_classes::ClassBackend;
use netqos_core::Direction;
use netqos_netlink::qdisc::Installed;
use netqos_netlink::{Handle, Socket};
use netqos_testkit::classes::{World, mbit, shares};
use netqos_testkit::{Bulk, assert_progress, time_of_progress};
use netqos_traffic::TcpTest;

/// In Mbit/s.
const UPLINK: u64 = 20;
/// The bytes of a packet that a TBF which segments never lets pass.
const LARGE: u32 = 20_000;
const PATIENCE: Duration = Duration::from_secs(30);

fn on_uplink<T>(
    world: &World,
    get: impl FnOnce(&mut Socket, &netqos_netlink::link::Link) -> T,
) -> T {
    let mut socket = Socket::open().unwrap();
    let link = socket.link_by_name(&world.line()).unwrap();
    get(&mut socket, &link)
}

fn at(world: &World, leaf: Handle) -> Installed {
    on_uplink(world, |socket, link| {
        socket.qdisc_at(link, leaf).unwrap().unwrap()
    })
}

/// Changes the bucket of the token bucket at a leaf in place.
fn change_bucket(world: &World, leaf: Handle, burst: &str) {
    let found = at(world, leaf);
    let limit = found.tbf().unwrap().limit.to_string();
    let (parent, handle) = (leaf.to_string(), found.handle.to_string());
    let uplink = world.line();
    let words = [
        "qdisc", "change", "dev", &uplink, "parent", &parent, "handle", &handle, "tbf", "rate",
        "80gbit", "burst", burst, "limit", &limit,
    ];
    world.node.run("tc", &words).unwrap();
}

/// A world in which a pod sends bulk, and the leaf in which packets wait that are larger than its token bucket's.
fn with_large_packets() -> Option<(World, Bulk, Handle)> {
    let mut world = World::new()?;
    world.divide(shares(UPLINK));
    let test = TcpTest {
        streams: 2,
        congestion_control: Some("cubic".to_owned()),
        ..TcpTest::new(world.outside_address(false))
    };
    // Older kernels make packets of a millisecond.
    let smallest = |segments: &str| fs::write("/proc/sys/net/ipv4/tcp_min_tso_segs", segments);
    world.pods["be"].inside(|| smallest("40")).unwrap().unwrap();
    let bulk = Bulk::start(world.pods["be"].netns(), move || drop(test.run(|_| ()))).unwrap();
    let began = Instant::now();
    let mut raised = None;
    loop {
        let queues = on_uplink(&world, |socket, link| socket.qdiscs(link).unwrap());
        let waiting = queues
            .iter()
            .find(|queue| queue.tbf().is_some() && queue.statistics.queued_packets > 0);
        if let Some(queue) = waiting {
            let Some(leaf) = raised else {
                change_bucket(&world, queue.parent, "1mb");
                raised = Some(queue.parent);
                continue;
            };
            let waits = queue.statistics;
            if queue.parent == leaf && waits.queued_bytes / waits.queued_packets > LARGE {
                return Some((world, bulk, leaf));
            }
        }
        assert!(
            began.elapsed() < PATIENCE,
            "no large packet waits: {queues:#?}"
        );
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn raised_bucket_of_leaf_is_lowered_without_a_stall() {
    let Some((mut world, _bulk, leaf)) = with_large_packets() else {
        return;
    };
    assert!(world.divide(shares(UPLINK)).changes > 0);
    let within = time_of_progress(mbit(UPLINK));
    assert_progress(within, || at(&world, leaf).statistics, String::new);
    assert_eq!(world.divide(shares(UPLINK)).changes, 0);
}

#[test]
fn stalled_leaf_is_emptied_and_reported() {
    let Some((mut world, _bulk, leaf)) = with_large_packets() else {
        return;
    };
    change_bucket(&world, leaf, "9238");
    let mut stalled = Vec::new();
    let began = Instant::now();
    // Smaller packets before the first large one leave.
    let mut sent = 0;
    while sent != at(&world, leaf).statistics.bytes {
        sent = at(&world, leaf).statistics.bytes;
        thread::sleep(Duration::from_millis(200));
    }
    while stalled.is_empty() {
        assert_eq!(at(&world, leaf).statistics.bytes, sent);
        assert!(began.elapsed() < PATIENCE);
        let outcome = world.backend.apply(&world.plan).unwrap();
        assert_eq!(outcome.changes, outcome.stalled.len(), "{outcome:#?}");
        stalled = outcome.stalled;
        thread::sleep(Duration::from_millis(250));
    }
    assert_eq!(stalled.len(), 1, "{stalled:#?}");
    assert_eq!(&stalled[0].link, &world.line());
    assert_eq!(stalled[0].direction, Direction::Egress);
    assert_eq!(stalled[0].htb_class, leaf.to_string());
    assert!(stalled[0].dropped > 0);
    while at(&world, leaf).statistics.bytes < 100_000 {
        assert!(began.elapsed() < PATIENCE, "{:?}", at(&world, leaf));
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(world.backend.apply(&world.plan).unwrap().changes, 0);
}
