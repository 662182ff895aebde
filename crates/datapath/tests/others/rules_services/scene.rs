//! A node with a client, backends, and a Service in front of them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread::sleep;
use std::time::{Duration, Instant};

use netqos_api::HookChoice;
use netqos_core::objects::{EndpointSlice, Service, ServicePortSpec};
use netqos_core::plan::ServicePort;
use netqos_core::{
    Destination, LabelSelector, ObjectName, PeerSelector, PortMatch, Protocol, Requirement, Rule,
};
use netqos_datapath::rules::Outcome;
use netqos_index::Change;
use netqos_testkit::Node;
use netqos_testkit::rules::proxy::virtual_address;
use netqos_testkit::rules::{World, marking, policy, proxy};

use super::sniffer::Sniffer;

/// The Service's port, and the backends'.
pub const SERVICE_PORT: u16 = 80;
pub const TARGET_PORT: u16 = 8080;
/// Datagrams of a flow.
const DATAGRAMS: usize = 5;

/// All ways to reach a Service.
pub const WAYS: [(Protocol, bool); 4] = [
    (Protocol::Udp, false),
    (Protocol::Tcp, false),
    (Protocol::Udp, true),
    (Protocol::Tcp, true),
];

pub struct Scene {
    pub world: World,
    /// True when the test expects problems.
    pub has_problems: bool,
    backends: BTreeMap<String, Backend>,
}

struct Backend {
    sniffer: Sniffer,
    _listeners: (TcpListener, UdpSocket),
}

/// Where a flow went, and the marks of its packets there, from the first on.
#[derive(Debug, PartialEq, Eq)]
pub struct Flow {
    pub to: String,
    pub marks: Vec<u8>,
}

impl Flow {
    /// The mark of its first packet, and the one that all others have.
    pub fn first_and_rest(&self) -> (u8, u8) {
        let (first, rest) = self.marks.split_first().unwrap();
        assert!(rest.len() >= 2, "{self:?}");
        assert!(rest.iter().all(|mark| *mark == rest[0]), "{self:?}");
        (*first, rest[0])
    }
}

impl Scene {
    /// A client, whose pod is a `player`. `None` when the test has to be skipped.
    pub fn new(hook: HookChoice) -> Option<Self> {
        Self::on(Node::new().unwrap()?, hook)
    }

    pub fn on(node: Node, hook: HookChoice) -> Option<Self> {
        if !proxy::is_there(&node) {
            return None;
        }
        let mut scene = Self {
            world: World::on(node, hook),
            has_problems: false,
            backends: BTreeMap::new(),
        };
        scene.backend("client", "player");
        Some(scene)
    }

    /// A pod of this kind, in which somebody listens.
    pub fn backend(&mut self, name: &str, kind: &str) {
        self.world.pod(name, kind);
        let backend = self.world.run(name, || {
            let any = SocketAddr::new("::".parse().unwrap(), TARGET_PORT);
            Backend {
                sniffer: Sniffer::open(),
                _listeners: (
                    TcpListener::bind(any).unwrap(),
                    UdpSocket::bind(any).unwrap(),
                ),
            }
        });
        self.backends.insert(name.to_owned(), backend);
    }

    pub fn address(&self, of: &str, v6: bool) -> IpAddr {
        self.world.address(of, v6).ip()
    }

    /// Lets the Service have these backends, in the index and in iptables.
    pub fn service(&mut self, backends: &[&str]) -> Outcome {
        for v6 in [false, true] {
            for protocol in ["udp", "tcp"] {
                let port = SocketAddr::new(virtual_address(v6), SERVICE_PORT);
                let backends: Vec<_> = backends
                    .iter()
                    .map(|name| SocketAddr::new(self.address(name, v6), TARGET_PORT))
                    .collect();
                proxy::forward(&self.world.node, protocol, port, &backends);
            }
        }
        self.objects(backends, TARGET_PORT)
    }

    /// The same in the index only.
    pub fn objects(&mut self, backends: &[&str], target_port: u16) -> Outcome {
        let ports = |number: u16| {
            let of = |protocol, name: &str| ServicePortSpec {
                name: name.into(),
                protocol,
                port: number,
            };
            vec![of(Protocol::Tcp, "tcp"), of(Protocol::Udp, "udp")]
        };
        for v6 in [false, true] {
            let addresses = backends.iter().map(|name| self.address(name, v6));
            self.world.index.apply(Change::EndpointSlice(EndpointSlice {
                name: ObjectName::new("games", if v6 { "front-6" } else { "front-4" }),
                service: "front".into(),
                ports: ports(target_port),
                addresses: addresses.collect(),
            }));
        }
        self.apply(Change::Service(Service {
            name: ObjectName::new("games", "front"),
            addresses: [false, true].map(virtual_address).into(),
            ports: ports(SERVICE_PORT),
        }))
    }

    /// Lets the client's packets meet these rules.
    pub fn rules(&mut self, rules: Vec<Rule>) -> Outcome {
        self.apply(Change::Policy(policy("p", 1, "player", rules)))
    }

    fn apply(&mut self, change: Change) -> Outcome {
        let outcome = self.world.try_apply(change);
        let is_right = self.has_problems || outcome.problems.is_empty();
        assert!(is_right, "{:#?}", outcome.problems);
        outcome
    }

    /// What stands behind the Service in the plan.
    pub fn behind(&self, v6: bool) -> usize {
        let port = ServicePort {
            address: virtual_address(v6),
            protocol: Protocol::Udp,
            port: SERVICE_PORT,
        };
        let backends = self.world.index.plan().services.get(&port);
        backends.map_or(0, |backends| backends.len())
    }

    /// The marks of datagrams that arrived at a backend, since this was last asked.
    pub fn marks_at(&self, name: &str) -> BTreeSet<u8> {
        let packets = self.backends[name].sniffer.drain().into_iter();
        packets
            .filter(|packet| packet.protocol == Protocol::Udp.number())
            .filter(|packet| packet.target_port == TARGET_PORT)
            .map(|packet| packet.dscp)
            .collect()
    }

    /// A flow from the client to the Service.
    pub fn flow(&self, protocol: Protocol, v6: bool) -> Flow {
        let to = SocketAddr::new(virtual_address(v6), SERVICE_PORT);
        self.flow_to(protocol, to)
    }

    /// A flow from the client.
    pub fn flow_to(&self, protocol: Protocol, to: SocketAddr) -> Flow {
        for backend in self.backends.values() {
            backend.sniffer.drain();
        }
        let is_v6 = to.is_ipv6();
        let own = SocketAddr::new(self.address("client", is_v6), 0);
        let source_port = self.world.run("client", || match protocol {
            Protocol::Tcp => send_tcp(to),
            _ => send_udp(own, to),
        });
        let mut flows: BTreeMap<&str, Vec<u8>> = BTreeMap::new();
        let end = Instant::now() + Duration::from_secs(2);
        while flows.values().map(Vec::len).sum::<usize>() < DATAGRAMS && Instant::now() < end {
            for (name, backend) in &self.backends {
                let address = self.address(name, is_v6);
                let packets = backend.sniffer.drain().into_iter();
                let marks = packets
                    .filter(|packet| packet.to == address)
                    .filter(|packet| packet.protocol == protocol.number())
                    .filter(|packet| {
                        (packet.source_port, packet.target_port) == (source_port, TARGET_PORT)
                    })
                    .map(|packet| packet.dscp);
                flows.entry(name).or_default().extend(marks);
            }
            sleep(Duration::from_millis(2));
        }
        flows.retain(|_, marks| !marks.is_empty());
        let to_one = flows.pop_first();
        assert!(flows.is_empty(), "it went to two");
        let (name, marks) = to_one.unwrap_or_else(|| panic!("{protocol} to {to} went nowhere"));
        Flow {
            to: name.to_owned(),
            marks,
        }
    }
}

fn send_udp(from: SocketAddr, to: SocketAddr) -> u16 {
    let socket = UdpSocket::bind(from).unwrap();
    for _ in 0..DATAGRAMS {
        socket.send_to(b"hello", to).unwrap();
        sleep(Duration::from_millis(2));
    }
    sleep(Duration::from_millis(20));
    socket.local_addr().unwrap().port()
}

fn send_tcp(to: SocketAddr) -> u16 {
    let mut stream = TcpStream::connect_timeout(&to, Duration::from_secs(5)).unwrap();
    stream.set_nodelay(true).unwrap();
    for _ in 0..DATAGRAMS {
        stream.write_all(b"hello").unwrap();
        sleep(Duration::from_millis(2));
    }
    sleep(Duration::from_millis(20));
    stream.local_addr().unwrap().port()
}

/// A destination: pods of this kind.
pub fn to_kind(kind: &str) -> Destination {
    Destination::Pods(PeerSelector {
        namespaces: None,
        pods: Some(LabelSelector::new([Requirement::equals("kind", kind)])),
    })
}

/// Marks what goes to pods of this kind.
pub fn marking_kind(dscp: i64, kind: &str) -> Rule {
    Rule {
        to: vec![to_kind(kind)],
        ..marking(dscp)
    }
}

/// This port of every protocol.
pub fn any_port(port: u16) -> PortMatch {
    PortMatch {
        protocol: None,
        port: std::num::NonZeroU16::new(port),
    }
}
