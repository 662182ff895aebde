//! A node with pods and policies of the test's own.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use netqos_api::HookChoice;
use netqos_core::objects::{LocalInterface, NetworkName};
use netqos_core::plan::{Attach, Interface};
use netqos_core::{
    Bandwidth, BitRate, Destination, Dscp, LabelSelector, Labels, Mode, NetworkChoice, ObjectName,
    PeerSelector, Policy, PortMatch, Priority, Requirement, Rule,
};
use netqos_datapath::rules::{Outcome, RuleDatapath};
use netqos_datapath::{Known, Paths, locate};
use netqos_index::{Change, Index};
use netqos_netlink::Namespace;
use netqos_traffic::{Flow, LatencyReport, LatencyTest, Server, TcpTest, UdpReport, UdpTest};

use crate::{Baseline, Node, Pod, mk_pod};

const NODE: &str = "node1";
const NAMESPACE: &str = "games";

/// What a full frame carries for TCP: 1,448 bytes of 1,514.
pub const TCP_SHARE: f64 = 1448.0 / 1514.0;

/// A node, the pods on it, and what is in force.
pub struct World {
    /// The thread's namespaces.
    pub node: Node,
    pub index: Index,
    pub rules: RuleDatapath,
    pods: BTreeMap<String, (Pod, Server)>,
    baseline: OnceCell<Baseline>,
}

/// A rule for everything, which says nothing yet.
pub fn rule() -> Rule {
    Rule {
        to: Vec::new(),
        ports: Vec::new(),
        dscp: None,
        bandwidth: None,
        mode: Mode::Enforce,
    }
}

pub fn marking(dscp: i64) -> Rule {
    Rule {
        dscp: Some(Dscp::try_new(dscp).unwrap()),
        ..rule()
    }
}

pub fn limiting(megabits: u64) -> Rule {
    Rule {
        bandwidth: Some(Bandwidth {
            rate: mbit(megabits),
            burst: None,
        }),
        ..rule()
    }
}

pub fn to_pod(name: &str) -> Destination {
    Destination::Pods(PeerSelector {
        namespaces: None,
        pods: Some(LabelSelector::new([Requirement::equals("name", name)])),
    })
}

/// A policy for the pods of this `kind`.
pub fn policy(name: &str, priority: i64, kind: &str, rules: Vec<Rule>) -> Policy {
    Policy {
        name: ObjectName::new(NAMESPACE, name),
        priority: Priority::try_new(priority).unwrap(),
        networks: NetworkChoice::Default,
        pods: LabelSelector::new([Requirement::equals("kind", kind)]),
        rules,
    }
}

pub fn udp_port(port: u16) -> PortMatch {
    PortMatch {
        protocol: Some(netqos_core::Protocol::Udp),
        port: std::num::NonZeroU16::new(port),
    }
}

pub const fn mbit(megabits: u64) -> BitRate {
    BitRate::from_bits_per_second(megabits * 1_000_000)
}

fn addresses(pod: &Pod, is_veth: bool) -> BTreeSet<IpAddr> {
    let v6 = is_veth.then(|| pod.address6());
    let all = std::iter::once(pod.address()).chain(v6);
    all.map(|address| address.parse().unwrap()).collect()
}

fn attached(pod: &Pod, is_veth: bool, netns: PathBuf) -> Change {
    let located = locate(&netns, "eth0", Known::default());
    let interface = Interface {
        container: pod.name().to_owned(),
        network: "net".to_owned(),
        name: "eth0".to_owned(),
        ends: located.ok().flatten().map(|located| located.ends),
        netns,
    };
    Change::Attachments {
        pod: ObjectName::new(NAMESPACE, pod.name()),
        uid: Some(format!("uid-{}", pod.name()).into()),
        interfaces: vec![LocalInterface {
            recorded: None,
            network: NetworkName::Default,
            name: "eth0".into(),
            addresses: addresses(pod, is_veth),
            attach: if is_veth {
                Attach::HostVeth(interface)
            } else {
                Attach::PodNetns(interface)
            },
        }],
    }
}

impl World {
    /// `None` when the test has to be skipped.
    pub fn new(hook: HookChoice) -> Option<Self> {
        Some(Self::on(Node::new().unwrap()?, hook))
    }

    /// The same on a node that the test made in a way of its own.
    pub fn on(node: Node, hook: HookChoice) -> Self {
        Self {
            node,
            index: Index::for_node(NODE),
            rules: RuleDatapath::open(Paths::from_variables(|_| None), hook).unwrap(),
            pods: BTreeMap::new(),
            baseline: OnceCell::new(),
        }
    }

    /// What a limit of `tc` leaves of its rate, from the first use on.
    pub fn baseline(&self) -> &Baseline {
        self.baseline
            .get_or_init(|| Baseline::new(&self.node).unwrap())
    }

    /// A pod of this kind, with a server in it.
    pub fn pod(&mut self, name: &str, kind: &str) {
        let pod = self.node.pod(name).unwrap();
        self.register(pod, kind, true);
    }

    /// The same without an end on the node.
    pub fn macvlan_pod(&mut self, name: &str, kind: &str) {
        if self.pods.is_empty() {
            self.node.parent_link("parent").unwrap();
        }
        let pod = self.node.macvlan_pod(name, "parent").unwrap();
        self.register(pod, kind, false);
    }

    /// A pod that the test made in a way of its own, with a server in it.
    pub fn register(&mut self, pod: Pod, kind: &str, is_veth: bool) {
        let name = pod.name().to_owned();
        let addresses = addresses(&pod, is_veth);
        let labels: Labels = [("name", name.as_str()), ("kind", kind)]
            .map(|(key, value)| (key.into(), value.into()))
            .into();
        let object = mk_pod(ObjectName::new(NAMESPACE, &name), labels, NODE, addresses);
        self.index.apply(Change::Pod(object));
        self.index.apply(attached(&pod, is_veth, pod.netns()));
        self.add_server(pod);
    }

    /// Another kind of a pod that is there, from now on.
    pub fn relabel(&mut self, name: &str, kind: &str) {
        let addresses = addresses(self.pod_named(name), true);
        let labels: Labels = [("name", name), ("kind", kind)]
            .map(|(key, value)| (key.into(), value.into()))
            .into();
        let object = mk_pod(ObjectName::new(NAMESPACE, name), labels, NODE, addresses);
        self.index.apply(Change::Pod(object));
    }

    /// So many pods of this kind on another node, from now on.
    pub fn far_pods(&mut self, many: u32, kind: &str) {
        for number in 0..many {
            let name = ObjectName::new(NAMESPACE, &format!("far-{number}"));
            let labels = [("kind".into(), kind.into())].into();
            let address = Ipv4Addr::from(0x0A80_0000 + number).into();
            let pod = mk_pod(name, labels, "elsewhere", [address]);
            self.index.apply(Change::Pod(pod));
        }
    }

    /// Where a pod with an end on the node is; told otherwise, it cannot be reached.
    pub fn attached_at(&self, name: &str, netns: impl Into<PathBuf>) -> Change {
        attached(self.pod_named(name), true, netns.into())
    }

    /// A server in a pod of which the policies know nothing.
    pub fn add_server(&mut self, pod: Pod) {
        let any: SocketAddr = "[::]:0".parse().unwrap();
        let server = pod.inside(|| Server::bind(any)).unwrap().unwrap();
        self.pods.insert(pod.name().to_owned(), (pod, server));
    }

    /// Puts this change, and those before it, in force; there may be problems.
    pub fn try_apply(&mut self, change: Change) -> Outcome {
        self.index.apply(change);
        let delta = self.index.take_delta();
        self.rules.apply(self.index.plan(), &delta)
    }

    /// The same without problems.
    pub fn apply(&mut self, change: Change) -> Outcome {
        let outcome = self.try_apply(change);
        assert_eq!(outcome.problems, [], "{:#?}", outcome.problems);
        outcome
    }

    /// What an agent does in a pause.
    pub fn tidy(&mut self) -> Outcome {
        let outcome = self.rules.finish(self.index.plan());
        assert!(!self.rules.is_unfinished());
        self.rules.tidy().unwrap();
        outcome
    }

    pub fn pod_named(&self, name: &str) -> &Pod {
        &self.pods[name].0
    }

    pub fn address(&self, of: &str, v6: bool) -> SocketAddr {
        let (pod, server) = &self.pods[of];
        let address = if v6 { pod.address6() } else { pod.address() };
        SocketAddr::new(address.parse().unwrap(), server.local_addr().port())
    }

    /// The marks that arrive when datagrams are sent.
    pub fn marks(&self, from: &str, to: &str, v6: bool) -> Vec<u8> {
        let test = UdpTest {
            duration: Duration::from_millis(100),
            omit: Duration::ZERO,
            ..UdpTest::new(self.address(to, v6), mbit(1))
        };
        let report = self.run(from, || test.run(|_| ()).unwrap());
        let seen = report.dscp_seen.iter();
        seen.map(|seen| u8::from(seen.dscp)).collect()
    }

    pub fn run<T: Send>(&self, from: &str, act: impl FnOnce() -> T + Send) -> T {
        self.pods[from].0.inside(act).unwrap()
    }

    pub fn tcp_test(&self, to: &str, seconds: f64) -> TcpTest {
        TcpTest {
            flow: Flow::Upload,
            omit: Duration::from_millis(700),
            duration: Duration::from_secs_f64(seconds),
            congestion_control: Some("cubic".to_owned()),
            ..TcpTest::new(self.address(to, false))
        }
    }

    /// TCP goodput in bit/s.
    pub fn tcp(&self, from: &str, to: &str, seconds: f64) -> f64 {
        let test = self.tcp_test(to, seconds);
        let report = self.run(from, || test.run(|_| ()).unwrap());
        report.goodput.rate.bits_per_second() as f64
    }

    pub fn udp_test(&self, to: &str, rate: BitRate) -> UdpTest {
        UdpTest {
            duration: Duration::from_secs(1),
            ..UdpTest::new(self.address(to, false), rate)
        }
    }

    pub fn udp(&self, from: &str, to: &str, rate: BitRate) -> UdpReport {
        let test = self.udp_test(to, rate);
        self.run(from, || test.run(|_| ()).unwrap())
    }

    /// 10,000 datagrams a second from a pod to another, which are under way for four seconds from now on.
    pub fn under_way(&self, from: &str, to: &str) -> JoinHandle<UdpReport> {
        self.under_way_for(Duration::from_secs(4), from, to)
    }

    /// The same for this long.
    pub fn under_way_for(&self, duration: Duration, from: &str, to: &str) -> JoinHandle<UdpReport> {
        let test = UdpTest {
            size: 200,
            omit: Duration::ZERO,
            duration,
            ..UdpTest::new(self.address(to, false), mbit(16))
        };
        let netns = self.pod_named(from).netns();
        let sender = thread::spawn(move || {
            let _inside = Namespace::open(netns).unwrap().enter().unwrap();
            test.run(|_| ()).unwrap()
        });
        thread::sleep(Duration::from_millis(200));
        sender
    }

    /// Requests from a pod to another for a second.
    pub fn latency(&self, from: &str, to: &str) -> LatencyReport {
        let test = LatencyTest {
            interval: Duration::from_millis(5),
            duration: Duration::from_secs(1),
            ..LatencyTest::new(self.address(to, false))
        };
        self.run(from, || test.run(|_| ()).unwrap())
    }
}
