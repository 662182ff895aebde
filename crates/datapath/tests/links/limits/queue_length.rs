//! A limit's queue is as long as the limit needs, whatever transmit queue length its link has.

use std::fs;
use std::net::UdpSocket;
use std::thread;
use std::time::Duration;

use netqos_api::{EgressWay, HookChoice};
use netqos_core::{BitRate, Direction, Limit, Limits};
use netqos_datapath::LimitDatapath;
use netqos_netlink::{Namespace, Socket};
use netqos_testkit::{Node, Pod};
use netqos_traffic::{Flow, Server, TcpTest};

use super::{Wanted, both, datapath, server};

const LEAST: u32 = 1000;

/// The length of the pod's interface, and of its host veth.
fn lengths(pod: &Pod) -> [u32; 2] {
    let pod_netns = Namespace::open(pod.netns()).unwrap();
    let inside = Socket::open_in(&pod_netns).unwrap().link_by_name("eth0");
    let outside = Socket::open().unwrap().link_by_name(pod.host_link());
    [inside, outside].map(|link| link.unwrap().tx_queue_len)
}

fn goodput(pod: &Pod, server: &Server, flow: Flow) -> f64 {
    let test = TcpTest {
        flow,
        omit: Duration::from_millis(500),
        duration: Duration::from_secs(2),
        congestion_control: Some("cubic".to_owned()),
        ..TcpTest::new(server.local_addr())
    };
    let report = pod.inside(|| test.run(|_| ())).unwrap().unwrap();
    report.goodput.rate.bits_per_second() as f64
}

/// All flows run at once: a busy machine slows down each of them.
#[test]
fn running_pod_without_transmit_queue_reaches_its_limit() {
    let Some(node) = Node::new().unwrap() else {
        return;
    };
    let mut datapath = datapath();
    let pods = [("none", 0), ("usual", LEAST)].map(|(name, length)| {
        let by_pod = node.pod(name).unwrap();
        let by_ifb = node.pod(&format!("{name}-ifb")).unwrap();
        for (pod, egress) in [(&by_pod, EgressWay::Pod), (&by_ifb, EgressWay::Ifb)] {
            pod.set_tx_queue_len(&node, length).unwrap();
            let mut wanted = Wanted::new(pod, both(10), HookChoice::Auto).running();
            wanted.egress = egress;
            datapath.apply(&wanted.request()).unwrap();
        }
        [by_pod, by_ifb]
    });
    let other = node.pod("free").unwrap();
    let server = server(&other, &other.address());
    let [none, usual] = thread::scope(|scope| {
        let server = &server;
        let measure = |pod, flow| scope.spawn(move || goodput(pod, server, flow));
        let started = pods.each_ref().map(|[by_pod, by_ifb]| {
            [
                measure(by_pod, Flow::Download),
                measure(by_pod, Flow::Upload),
                measure(by_ifb, Flow::Download),
                measure(by_ifb, Flow::Upload),
            ]
        });
        started.map(|flows| flows.map(|flow| flow.join().unwrap()))
    });
    // Together: one that a busy machine stops for a moment is not much of them, and one without bands is.
    let [sum, of_usual] = [none, usual].map(|rates| rates.iter().sum::<f64>());
    assert!(sum >= 0.95 * of_usual, "{none:.0?} of {usual:.0?} bit/s");
}

#[test]
fn raised_length_stays_until_the_limit_goes() {
    let Some(node) = Node::new().unwrap() else {
        return;
    };
    let pod = node.pod("limited").unwrap();
    // For the last the kernel would have to reserve 48 GB, and refuses bands.
    let cases = [
        (0, LEAST),
        (999, LEAST),
        (5000, 5000),
        (2_000_000_000, LEAST),
    ];
    for (length, raised) in cases {
        pod.set_tx_queue_len(&node, length).unwrap();
        for (megabits, least) in [(10, raised), (20, raised)] {
            let wanted = Wanted::new(&pod, both(megabits), HookChoice::Auto).running();
            let mut datapath = datapath();
            datapath.apply(&wanted.request()).unwrap();
            assert_eq!(lengths(&pod), [least; 2], "{length}");
        }
        // The link of a direction that is no longer limited has its length again.
        let mut wanted = Wanted::new(&pod, both(20), HookChoice::Auto).running();
        wanted.limits.egress = None;
        datapath().apply(&wanted.request()).unwrap();
        assert_eq!(lengths(&pod), [length, raised]);
        wanted.limits = Limits::default();
        datapath().apply(&wanted.request()).unwrap();
        assert_eq!(lengths(&pod), [length; 2]);
    }
}

/// An earlier version made such queues.
#[test]
fn queue_of_one_packet_is_replaced() {
    let Some(node) = Node::new().unwrap() else {
        return;
    };
    let pod = node.pod("limited").unwrap();
    let wanted = Wanted::new(&pod, both(10), HookChoice::Auto).running();
    let mut datapath = datapath();
    datapath.apply(&wanted.request()).unwrap();
    pod.set_tx_queue_len(&node, 1).unwrap();
    let replace = "qdisc replace dev LINK parent 1:1 handle 3: pfifo_fast";
    let replace = replace.replace("LINK", pod.host_link());
    node.run("tc", &replace.split(' ').collect::<Vec<_>>())
        .unwrap();
    let bands = |datapath: &LimitDatapath| {
        let record = datapath
            .records()
            .read(&wanted.attachment)
            .unwrap()
            .unwrap();
        let of = |direction| record.queues.iter().find(|it| it.direction == direction);
        of(Direction::Ingress).unwrap().band_limit
    };
    assert_eq!(bands(&datapath), Some(LEAST));
    for file in node
        .files("/run/netqos")
        .iter()
        .filter(|it| it.ends_with(".json"))
    {
        let text = fs::read_to_string(file).unwrap();
        let (long, short) = ("\"band_limit\":1000", "\"band_limit\":1");
        assert!(text.contains(long), "{text}");
        fs::write(file, text.replace(long, short)).unwrap();
    }
    assert_eq!(bands(&datapath), Some(1));
    datapath.apply(&wanted.request()).unwrap();
    assert_eq!(bands(&datapath), Some(LEAST));
    assert_eq!(lengths(&pod)[1], LEAST);
}

/// The kernel empties the queue of a link whose length changes. At 100 kbit/s a packet leaves in 115 ms.
#[test]
fn packets_lost_by_a_change_of_the_length_are_counted() {
    const SENT: usize = 60;
    let Some(node) = Node::new().unwrap() else {
        return;
    };
    let (pod, other) = (node.pod("limited").unwrap(), node.pod("free").unwrap());
    let mut datapath = datapath();
    let waiting = |seconds| {
        let mut limits = Limits::default();
        let limit = Limit::of(BitRate::from_bits_per_second(100_000));
        let latency = Some(Duration::from_secs(seconds));
        limits.egress = Some(Limit { latency, ..limit });
        Wanted::new(&pod, limits, HookChoice::Auto).running()
    };
    datapath.apply(&waiting(20).request()).unwrap();
    assert_eq!(datapath.take_dropped(), 0);
    let bind = || UdpSocket::bind("0.0.0.0:0").unwrap();
    let (sender, receiver) = (pod.inside(bind).unwrap(), other.inside(bind).unwrap());
    let port = receiver.local_addr().unwrap().port();
    for _ in 0..SENT {
        let to = format!("{}:{port}", other.address());
        sender.send_to(&[0; 1400], to).unwrap();
    }
    // So many packets wait by then that longer bands are needed.
    datapath.apply(&waiting(60).request()).unwrap();
    let dropped = datapath.take_dropped();
    let longest = Duration::from_secs(2);
    receiver.set_read_timeout(Some(longest)).unwrap();
    let arrived = (0..SENT).take_while(|_| receiver.recv(&mut [0; 2048]).is_ok());
    let lost = (SENT - arrived.count()) as u64;
    // Some leave between the count and the change.
    let is_counted = (lost..=lost + 10).contains(&dropped);
    assert!(lost > 0 && is_counted, "{dropped} counted, {lost} lost");
}

/// The pod, an operator, or a plugin that comes later sets another length while the limit is programmed.
#[test]
fn length_that_others_set_stays_and_shortens_no_bands() {
    let Some(node) = Node::new().unwrap() else {
        return;
    };
    let pod = node.pod("limited").unwrap();
    let mut datapath = datapath();
    let at = |megabits| Wanted::new(&pod, both(megabits), HookChoice::Auto).running();
    datapath.apply(&at(100).request()).unwrap();
    for theirs in [1, 2_000_000_000] {
        pod.set_tx_queue_len(&node, theirs).unwrap();
        // A change keeps the bands, and the length.
        datapath.apply(&at(20).request()).unwrap();
        assert_eq!(lengths(&pod), [theirs; 2]);
        // New bands are long enough.
        for direction in [Direction::Ingress, Direction::Egress] {
            datapath.empty(&at(20).request(), direction.into()).unwrap();
        }
        assert_eq!(lengths(&pod), [LEAST; 2]);
    }
    pod.set_tx_queue_len(&node, 5000).unwrap();
    let mut free = at(20);
    free.limits = Limits::default();
    datapath.apply(&free.request()).unwrap();
    assert_eq!(lengths(&pod), [5000; 2]);
}
