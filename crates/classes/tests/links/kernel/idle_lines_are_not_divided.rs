//! While a line carries little, packets pass beside its tree, and are counted all the same.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use netqos_classes::{ClassBackend, Kernel, KernelOptions};
use netqos_core::classes::TrafficClass;
use netqos_testkit::classes::{BE, LS, SYSTEM, World, divided, options, shares};
use netqos_traffic::Flow;

const BOTH: [Flow; 2] = [Flow::Upload, Flow::Download];
/// Longer than a line has to carry little before it is divided no more.
const CALM: Duration = Duration::from_millis(400);
/// Longer than it has to at least, and shorter than a flow that took much is known to.
const PAUSE: Duration = Duration::from_millis(300);
/// When it is still known.
const TAKEN: Duration = Duration::from_millis(450);
/// Questions of a second, with what is around them, and some of them late.
const ASKED: u64 = 50_000;
/// What the machines tell each other beside that.
const LITTLE: u64 = 10_000;

type Bytes = BTreeMap<TrafficClass, u64>;

fn grown(before: &Bytes, after: &Bytes) -> Bytes {
    let grown = after.iter().map(|(of, bytes)| (*of, bytes - before[of]));
    grown.collect()
}

/// What a pod's questions of a second, and the answers, are counted as, each way: altogether, and in the
/// tree.
fn ask(world: &World, pod: &str) -> [(Bytes, Bytes); 2] {
    // A line of which nothing was counted yet is held for busy from its first packet on.
    assert!(world.is_reached());
    thread::sleep(CALM);
    let look = || BOTH.map(|flow| (world.sent(flow), world.divided(flow)));
    let before = look();
    let report = world.latency(pod, 1);
    assert_eq!(report.lost, 0, "{report}");
    let after = look();
    [0, 1].map(|way| {
        let (before, after) = (&before[way], &after[way]);
        (grown(&before.0, &after.0), grown(&before.1, &after.1))
    })
}

#[test]
fn and_every_class_has_what_passed() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.divide(shares(100));
    for (pod, class) in [("sys", SYSTEM), ("ls", LS), ("be", BE)] {
        for (all, in_tree) in ask(&world, pod) {
            assert!(all[&class] > ASKED, "{pod}: {all:?}");
            let others = all.iter().filter(|(of, _)| **of != class);
            assert!(
                others.map(|(_, bytes)| bytes).sum::<u64>() < LITTLE,
                "{all:?}"
            );
            assert_eq!(in_tree.values().sum::<u64>(), 0, "{pod}: {in_tree:?}");
        }
    }
    // What is written anew goes on with what was counted.
    let before = BOTH.map(|flow| world.sent(flow));
    world.divide(shares(200));
    let after = BOTH.map(|flow| world.sent(flow));
    for (before, after) in before.iter().zip(&after) {
        assert!(
            before.iter().all(|(of, bytes)| after[of] >= *bytes),
            "{after:?}"
        );
    }
}

#[test]
fn what_has_a_limit_of_its_own_waits_all_the_same() {
    let Some(mut world) = World::new() else {
        return;
    };
    // Of a pod, of a class, and of neither.
    world.ask("ls", 0, Some(20));
    world.divide(divided(100, [30, 100], [30, 50]));
    for (pod, class, waits) in [("ls", LS, true), ("be", BE, true), ("sys", SYSTEM, false)] {
        for (all, in_tree) in ask(&world, pod) {
            assert!(all[&class] > ASKED, "{pod}: {all:?}");
            assert_eq!(in_tree[&class] > ASKED, waits, "{pod}: {in_tree:?}");
        }
    }
}

#[test]
fn when_it_carries_more_every_packet_waits_and_when_it_calms_down_no_more() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.divide(shares(100));
    for flow in BOTH {
        let way = usize::from(flow == Flow::Download);
        // A third of the line is not little, whoever sends it; one that is full has its shares.
        world.ask("be", 0, Some(33));
        world.divide(shares(100));
        world.while_loaded(flow, false, &["be"], 4.0, || {
            let before = (world.sent(flow), world.divided(flow));
            let report = world.latency("sys", 1);
            let sent = grown(&before.0, &world.sent(flow));
            let in_tree = grown(&before.1, &world.divided(flow));
            assert!(in_tree[&SYSTEM] > ASKED, "{report} {in_tree:?}");
            // The two are not looked at at the same time.
            let beside = sent[&SYSTEM].abs_diff(in_tree[&SYSTEM]);
            assert!(beside < 3_000, "{beside} passed beside it");
        });
        world.ask("be", 0, None);
        world.divide(shares(100));
        let (all, in_tree) = &ask(&world, "sys")[way];
        assert!(all[&SYSTEM] > ASKED, "{all:?}");
        assert_eq!(in_tree[&SYSTEM], 0, "{in_tree:?}");
    }
}

#[test]
fn what_is_little_of_a_line_that_comes_to_be_slower_is_less_whatever_fails_after_that() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.divide(shares(100));
    assert_eq!(ask(&world, "sys")[0].1[&SYSTEM], 0);
    // That a pod is gone cannot be written down.
    let numbers = options().paths.run().join("classes.json");
    fs::remove_file(&numbers).unwrap();
    fs::create_dir(&numbers).unwrap();
    world.plan.pods.remove("ls");
    world.plan.lines = [(world.line(), shares(2))].into();
    world.backend.apply(&world.plan).unwrap_err();
    fs::remove_dir(&numbers).unwrap();
    for (_, in_tree) in ask(&world, "sys") {
        assert!(in_tree[&SYSTEM] > ASKED, "{in_tree:?}");
    }
}

/// The queue of a part is full, and is to be of another kind: that takes half a second at least.
#[test]
fn and_while_the_tree_is_still_being_changed() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.ask("be", 0, Some(1));
    world.divide(shares(600));
    assert_eq!(ask(&world, "sys")[0].1[&SYSTEM], 0);
    Datagrams::new(&world, "be").send(100, 1000);
    let mut slower = world.plan.clone();
    slower.lines = [(world.line(), shares(100))].into();
    let mut backend = Kernel::open(options()).unwrap();
    let mut datagrams = Datagrams::new(&world, "sys");
    thread::scope(|scope| {
        let applied = scope.spawn(|| backend.apply(&slower).unwrap());
        // Little of 600 Mbit/s, and not of 100.
        let mut waits = || {
            let before = world.divided(Flow::Upload);
            datagrams.send(40, 1000);
            thread::sleep(Duration::from_millis(10));
            grown(&before, &world.divided(Flow::Upload))[&SYSTEM] > 30_000
        };
        while !waits() {
            assert!(!applied.is_finished(), "nothing waited");
        }
        assert_eq!(applied.join().unwrap().troubles, []);
    });
}

#[test]
fn unless_it_is_to_be_divided_always() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.divide(shares(100));
    assert_eq!(ask(&world, "ls")[0].1[&LS], 0);
    let always = KernelOptions {
        divides_idle_lines: true,
        ..options()
    };
    world.backend = Kernel::open(always.clone()).unwrap();
    let outcome = world.divide(shares(100));
    assert_eq!(outcome.changes, 2, "{outcome:?}");
    for (all, in_tree) in ask(&world, "ls") {
        assert!(in_tree[&LS] > ASKED, "{in_tree:?}");
        assert_eq!(all, in_tree, "some passed beside it");
    }
    world.backend = Kernel::open(always).unwrap();
    assert_eq!(world.divide(shares(100)).changes, 0);
}

#[test]
fn also_where_its_link_has_no_queue_of_its_own() {
    let Some(mut world) = World::new() else {
        return;
    };
    let line = world.line();
    let words = ["link", "set", &line, "txqueuelen", "0"];
    world.node.run("ip", &words).unwrap();
    world.divide(shares(100));
    for (all, in_tree) in ask(&world, "ls") {
        assert!(all[&LS] > ASKED, "{all:?}");
        assert_eq!(in_tree[&LS], 0, "{in_tree:?}");
    }
}

/// Datagrams of one flow from a pod to the outside.
struct Datagrams {
    pod: UdpSocket,
    outside: UdpSocket,
    sent: u32,
}

impl Datagrams {
    fn new(world: &World, pod: &str) -> Self {
        let bind = || UdpSocket::bind("0.0.0.0:0").unwrap();
        let pod = world.pods[pod].inside(bind).unwrap();
        let outside = world.outside.inside(bind).unwrap();
        let address: IpAddr = world.outside.address().parse().unwrap();
        let port = outside.local_addr().unwrap().port();
        pod.connect(SocketAddr::new(address, port)).unwrap();
        let longest = Duration::from_secs(3);
        outside.set_read_timeout(Some(longest)).unwrap();
        Self {
            pod,
            outside,
            sent: 0,
        }
    }

    fn send(&mut self, count: u32, length: usize) {
        let mut datagram = vec![0; length];
        for number in self.sent..self.sent + count {
            datagram[..4].copy_from_slice(&number.to_be_bytes());
            self.pod.send(&datagram).unwrap();
        }
        self.sent += count;
    }

    /// Many wait, and one that comes after `meanwhile` overtakes none of them. A busy machine may come too late
    /// with it: it is not known for ever that its flow took much.
    fn assert_wait(&mut self, mut before: impl FnMut(), mut meanwhile: impl FnMut()) {
        let is_soon = (0..5).any(|_| {
            before();
            let began = Instant::now();
            self.send(120, 1400);
            meanwhile();
            let is_soon = began.elapsed() < TAKEN;
            self.send(is_soon.into(), 4);
            let numbers: Vec<u32> = (0..self.sent).map(|_| self.next()).collect();
            assert_eq!(numbers, (0..self.sent).collect::<Vec<_>>());
            self.sent = 0;
            is_soon
        });
        assert!(is_soon);
    }

    fn next(&self) -> u32 {
        let mut datagram = [0; 1400];
        self.outside.recv(&mut datagram).unwrap();
        u32::from_be_bytes(datagram[..4].try_into().unwrap())
    }
}

/// What a queue of a slow line holds takes longer than a pause of its sender.
#[test]
fn what_comes_after_a_pause_overtakes_nothing_that_waits() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.divide(shares(2));
    let mut datagrams = Datagrams::new(&world, "be");
    datagrams.assert_wait(|| (), || thread::sleep(PAUSE));
}

/// Nobody has counted what such a line carries.
#[test]
fn nor_what_comes_once_a_line_is_no_more_to_be_divided_always() {
    let Some(mut world) = World::new() else {
        return;
    };
    let always = KernelOptions {
        divides_idle_lines: true,
        ..options()
    };
    // It was held for idle, before.
    world.divide(shares(100));
    assert!(world.is_reached());
    thread::sleep(CALM);
    world.plan.lines = [(world.line(), shares(2))].into();
    let [mut always, mut backend] = [always, options()].map(|it| Kernel::open(it).unwrap());
    let mut datagrams = Datagrams::new(&world, "be");
    datagrams.assert_wait(
        || drop(always.apply(&world.plan).unwrap()),
        || assert_eq!(backend.apply(&world.plan).unwrap().changes, 2),
    );
    assert_eq!(backend.apply(&world.plan).unwrap().changes, 0);
}
