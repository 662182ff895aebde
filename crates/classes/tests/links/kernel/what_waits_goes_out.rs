use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use netqos_datapath::try_fq_codel;
use netqos_netlink::Socket;
use netqos_testkit::Bulk;
use netqos_testkit::classes::{World, divided, mbit, shares};
use netqos_traffic::{TcpTest, UdpTest};
use socket2::SockRef;

/// About what the queue of a pod's part holds.
const DATAGRAMS: usize = 100;
const BYTES: usize = 1000;
/// How many more come one by one, and how often.
const MORE: usize = 80;
const EVERY: Duration = Duration::from_millis(20);

/// Counts the datagrams that arrive outside, until none does any more; to which port they go.
fn count(world: &World) -> (u16, JoinHandle<Vec<Instant>>) {
    let bind = || UdpSocket::bind("0.0.0.0:0");
    let receiver = world.outside.inside(bind).unwrap().unwrap();
    let port = receiver.local_addr().unwrap().port();
    SockRef::from(&receiver)
        .set_recv_buffer_size(1 << 20)
        .unwrap();
    let wait = Some(Duration::from_secs(3));
    receiver.set_read_timeout(wait).unwrap();
    let counts = thread::spawn(move || {
        let mut arrived = Vec::new();
        let mut bytes = [0; BYTES];
        while receiver.recv(&mut bytes).is_ok() {
            arrived.push(Instant::now());
        }
        arrived
    });
    (port, counts)
}

/// The pod `be` sends all at once, and so many more one by one while `act` is done; what has arrived, and
/// how much of that within 50 ms, when `act` begins.
fn sent_while(world: &mut World, more: usize, act: impl FnOnce(&mut World)) -> (usize, usize) {
    let (port, counts) = count(world);
    let socket = world.pods["be"].inside(|| UdpSocket::bind("0.0.0.0:0"));
    let socket = socket.unwrap().unwrap();
    socket
        .connect((world.outside.address().as_str(), port))
        .unwrap();
    let send = || socket.send(&[0; BYTES]).unwrap();
    for _ in 0..DATAGRAMS {
        send();
    }
    let sent = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..more {
                thread::sleep(EVERY);
                send();
            }
        });
        thread::sleep(Duration::from_millis(50));
        act(world);
    });
    let arrived = counts.join().unwrap();
    let soon = sent + Duration::from_millis(50);
    let before = arrived.iter().filter(|at| **at < soon).count();
    (arrived.len(), before)
}

/// A part of 1 Mbit/s whose queue is full when it goes, while its class has more than enough to do.
#[test]
fn of_a_part_that_goes() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.ask("be", 0, Some(1));
    world.divide(shares(100));
    let (arrived, before) = sent_while(&mut world, 0, |world| {
        world.ask("be", 0, None);
        world.divide(shares(100));
    });
    assert!(before < DATAGRAMS / 2, "{before} did not wait");
    assert_all_but_codels(arrived, DATAGRAMS);
    assert!(
        !world
            .node
            .run("tc", &["class", "show", "dev", &world.line()])
            .unwrap()
            .contains("6e71:8")
    );
}

/// CoDel drops a packet of a flow that waits for longer than its interval, whether anything changes or not.
fn assert_all_but_codels(arrived: usize, sent: usize) {
    let lost = if try_fq_codel().is_ok() { 3 } else { 0 };
    assert!(
        arrived <= sent && arrived + lost >= sent,
        "{arrived} of {sent}"
    );
}

/// How many queues of the line cut what waits in them.
fn cutting(world: &World) -> usize {
    let mut socket = Socket::open().unwrap();
    let line = socket.link_by_name(&world.line()).unwrap();
    let queues = socket.qdiscs(&line).unwrap();
    queues.iter().filter(|it| it.tbf().is_some()).count()
}

/// A line that comes to be slower, or faster, than lines are whose bulk waits in frames: the queue of a
/// part is full then, and there is no end to what comes.
#[test]
fn of_a_queue_of_another_kind() {
    // Three classes, and a part.
    for (from, to, cut) in [(600, 100, 4), (100, 600, 0)] {
        let Some(mut world) = World::new() else {
            return;
        };
        world.ask("be", 0, Some(1));
        world.divide(shares(from));
        assert_eq!(cutting(&world), 4 - cut);
        let (arrived, before) = sent_while(&mut world, MORE, |world| {
            world.divide(shares(to));
            assert_eq!(cutting(world), cut, "{from} to {to}");
            assert_eq!(world.divide(shares(to)).changes, 0);
        });
        assert!(before < DATAGRAMS / 2, "{before} did not wait");
        assert_all_but_codels(arrived, DATAGRAMS + MORE);
    }
}

/// A leaf that loses its guarantee owes up to a minute of its own rate for one GSO packet. Until then it only borrows, and
/// a flow whose packets go by the other leaf of its class takes all of that.
#[test]
fn queue_of_class_without_guarantee_is_exchanged_under_bulk() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.divide(divided(600, [30, 100], [5, 10]));
    let address = world.outside_address(false);
    let tcp = TcpTest {
        streams: 4,
        omit: Duration::ZERO,
        duration: Duration::from_secs(2),
        ..TcpTest::new(address)
    };
    let udp = UdpTest {
        omit: Duration::ZERO,
        duration: Duration::from_secs(2),
        ..UdpTest::new(address, mbit(60))
    };
    let netns = world.pods["be"].netns();
    let _gso_packets = Bulk::start(netns.clone(), move || drop(tcp.run(|_| ()))).unwrap();
    thread::sleep(Duration::from_millis(500));
    world.divide(divided(600, [30, 100], [0, 10]));
    thread::sleep(Duration::from_millis(200));
    let _more_than_the_limit = Bulk::start(netns, move || drop(udp.run(|_| ()))).unwrap();
    thread::sleep(Duration::from_millis(500));
    world.divide(divided(100, [30, 100], [0, 20]));
    // Three classes.
    assert_eq!(cutting(&world), 3);
}

/// HTB lets a class send at its own rate whatever its parents owe: a backlog that is sent so beside guarantees that are
/// used makes the uplink owe, and until it has paid it lends nothing.
#[test]
fn backlog_of_removed_part_is_sent_within_what_uplink_lends() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.ask("be", 1, None);
    world.divide(shares(4));
    let address = world.outside_address(false);
    let floods = ["sys", "ls", "be"].map(|pod| {
        let udp = UdpTest {
            omit: Duration::ZERO,
            duration: Duration::from_secs(2),
            ..UdpTest::new(address, mbit(8))
        };
        let netns = world.pods[pod].netns();
        Bulk::start(netns, move || drop(udp.run(|_| ()))).unwrap()
    });
    thread::sleep(Duration::from_secs(1));
    let link = world.line();
    let is_over = AtomicBool::new(false);
    let most = thread::scope(|scope| {
        let most = scope.spawn(|| {
            let mut socket = Socket::open().unwrap();
            let link = socket.link_by_name(&link).unwrap();
            let mut most = Duration::ZERO;
            while !is_over.load(Ordering::Relaxed) {
                let classes = socket.classes(&link).unwrap();
                let uplink = classes.iter().find(|class| class.handle.minor() == 1);
                most = most.max(uplink.unwrap().debt());
                thread::sleep(Duration::from_millis(2));
            }
            most
        });
        world.ask("be", 0, None);
        world.divide(shares(4));
        is_over.store(true, Ordering::Relaxed);
        most.join().unwrap()
    });
    drop(floods);
    println!("the uplink owed for {most:.0?} at most");
    assert!(most < Duration::from_millis(250), "{most:?}");
}
