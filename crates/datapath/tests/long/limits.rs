//! What pods see of their limits: traffic between two pods of a node, measured.
//!
//! That a limit takes effect at all is tested in `links::limits`; here it is measured, and the best of three
//! tries counts. Exact figures are `make bench`'s.

mod a_flood_waits_no_longer_than_promised;
mod every_kind_of_interface_is_held;
mod foreign_programs_do_not_lift_a_limit;
mod large_datagrams_do_not_delay_others;
mod many_tiny_flows_do_not_starve_the_rest;
mod no_second_is_far_over_the_limit;
mod queue_length;
mod small_flows_do_not_wait_behind_bulk;
mod tcp_gets_the_rate_it_was_promised;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use netqos_api::{EgressWay, HookChoice};
use netqos_core::{Attachment, BitRate, Direction, Limit, Limits};
use netqos_datapath::{HostLinks, LimitDatapath, Paths, Request};
use netqos_testkit::{Node, Pod};
use netqos_traffic::{Flow, LatencyReport, LatencyTest, Server, TcpTest, UdpReport, UdpTest};

/// What a full frame carries for TCP: 1,448 bytes of 1,514.
const TCP_SHARE: f64 = 1448.0 / 1514.0;

/// Both hooks: what is tested with one is tested with the other.
const HOOKS: [HookChoice; 2] = [HookChoice::Clsact, HookChoice::Tcx];
const DIRECTIONS: [Direction; 2] = [Direction::Ingress, Direction::Egress];

const fn mbit(megabits: u64) -> BitRate {
    BitRate::from_bits_per_second(megabits * 1_000_000)
}

fn both(limit: Limit) -> Limits {
    Limits {
        ingress: Some(limit),
        egress: Some(limit),
    }
}

/// A limited pod, and a server in another one that is not.
struct Link {
    /// The thread's namespaces.
    _node: Node,
    pod: Pod,
    other: Pod,
    server: Server,
}

impl Link {
    /// `None` when the test has to be skipped.
    fn new() -> Option<Self> {
        let node = Node::new().unwrap()?;
        let pod = node.pod("limited").unwrap();
        let other = node.pod("free").unwrap();
        let address = other.address();
        Some(Self::between(node, pod, other, &address))
    }

    /// The same of two pods without ends on the node.
    fn by_macvlan() -> Option<Self> {
        let node = Node::new().unwrap()?;
        node.parent_link("parent").unwrap();
        let pod = node.macvlan_pod("limited", "parent").unwrap();
        let other = node.macvlan_pod("free", "parent").unwrap();
        let address = other.address();
        Some(Self::between(node, pod, other, &address))
    }

    /// The server is at this address of the other pod.
    fn between(node: Node, pod: Pod, other: Pod, address: &str) -> Self {
        let server = serve_in(&other, address.parse().unwrap());
        Self {
            _node: node,
            pod,
            other,
            server,
        }
    }

    /// Holds the pod to these limits.
    fn limit(&self, limits: Limits, hook: HookChoice, egress: EgressWay) {
        hold(&self.pod, limits, hook, egress);
    }

    /// TCP goodput in bit/s for this long, after half a second that is not counted.
    fn tcp(&self, direction: Direction, seconds: f64) -> f64 {
        goodput(&self.pod, &self.tcp_test(direction, seconds))
    }

    fn tcp_test(&self, direction: Direction, seconds: f64) -> TcpTest {
        tcp_test(&self.server, direction, seconds)
    }

    /// A flood of datagrams for two seconds, the first of which is not counted.
    fn udp(&self, direction: Direction, rate: BitRate) -> UdpReport {
        let test = UdpTest {
            flow: flow(direction),
            duration: Duration::from_secs(1),
            ..UdpTest::new(self.server.local_addr(), rate)
        };
        self.pod.inside(|| test.run(|_| ())).unwrap().unwrap()
    }

    /// Requests while something else goes on, from half a second after it began.
    fn latency_during(&self, interval: Duration, load: impl FnOnce() + Send) -> LatencyReport {
        let test = LatencyTest {
            interval,
            duration: Duration::from_millis(1500),
            ..LatencyTest::new(self.server.local_addr())
        };
        let pod = &self.pod;
        std::thread::scope(|scope| {
            let load = scope.spawn(|| pod.inside(load).unwrap());
            std::thread::sleep(Duration::from_millis(500));
            let report = pod.inside(|| test.run(|_| ())).unwrap().unwrap();
            load.join().unwrap();
            report
        })
    }
}

fn tcp_test(server: &Server, direction: Direction, seconds: f64) -> TcpTest {
    TcpTest {
        flow: flow(direction),
        omit: Duration::from_millis(500),
        duration: Duration::from_secs_f64(seconds),
        congestion_control: Some("cubic".to_owned()),
        ..TcpTest::new(server.local_addr())
    }
}

/// The goodput of a test that a pod runs, in bit/s.
fn goodput(pod: &Pod, test: &TcpTest) -> f64 {
    let report = pod.inside(|| test.run(|_| ())).unwrap().unwrap();
    report.goodput.rate.bits_per_second() as f64
}

/// Holds a pod to these limits.
fn hold(pod: &Pod, limits: Limits, hook: HookChoice, egress: EgressWay) {
    let attachment = Attachment::try_new("net", pod.name(), "eth0").unwrap();
    LimitDatapath::open(Paths::from_variables(|_| None))
        .unwrap()
        .apply(&Request {
            attachment: &attachment,
            netns: &pod.netns(),
            ends: None,
            host_links: HostLinks::Unknown,
            limits,
            egress,
            hook,
            is_running: false,
        })
        .unwrap();
}

/// A server in a pod.
fn serve_in(pod: &Pod, address: IpAddr) -> Server {
    pod.inside(|| Server::bind(SocketAddr::new(address, 0)))
        .unwrap()
        .unwrap()
}

/// The way of traffic in this direction of a pod that asks a server elsewhere.
fn flow(direction: Direction) -> Flow {
    match direction {
        Direction::Ingress => Flow::Download,
        Direction::Egress => Flow::Upload,
    }
}

/// Tries up to three times; the last failure counts.
fn within_three_tries(mut attempt: impl FnMut() -> Result<(), String>) {
    let mut failures = Vec::new();
    for _ in 0..3 {
        match attempt() {
            Ok(()) => return,
            Err(why) => failures.push(why),
        }
    }
    panic!("three times: {failures:#?}");
}

/// Fails with what was measured.
fn expect(holds: bool, measured: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(measured()) }
}
