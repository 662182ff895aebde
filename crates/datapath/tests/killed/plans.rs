//! The plans between which the tests go: pods of every kind, rules of every kind, and Services.
#![allow(dead_code, reason = "not every test program needs all of it")]

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::path::Path;

use ipnet::IpNet;
use netqos_core::objects::{EndpointSlice, LocalInterface, NetworkName, Service, ServicePortSpec};
use netqos_core::plan::{Attach, Interface};
use netqos_core::{
    Destination, IpBlock, LabelSelector, Labels, NodePlan, ObjectName, Operator, PeerSelector,
    PodId, Policy, Protocol, Requirement, Rule,
};
use netqos_index::{Change, Index};
use netqos_testkit::mk_pod;
use netqos_testkit::rules::{limiting, marking, policy, udp_port};

/// Virtual addresses, of port 80: one whose backends are alike to all rules in every plan, and one
/// whose differ in the new one.
pub const ALIKE: [&str; 2] = ["10.96.0.1", "fd00:96::1"];
pub const MIXED: [&str; 2] = ["10.96.0.2", "fd00:96::2"];
pub const SERVICE_PORT: u16 = 80;
const TARGET_PORT: u16 = 8080;

/// What is to be in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rules {
    /// Not even programs and tables.
    Removed,
    None,
    Old,
    New,
}

/// A pod, as the plan needs to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    pub name: String,
    pub kind: String,
    pub is_veth: bool,
    pub addresses: Vec<IpAddr>,
}

impl Rules {
    pub fn of(name: &str) -> Self {
        let all = [Self::Removed, Self::None, Self::Old, Self::New];
        all.into_iter()
            .find(|rules| rules.to_string() == name)
            .unwrap()
    }

    /// The plan of a node with these pods.
    pub fn plan(self, pods: &[Facts]) -> NodePlan {
        let mut index = Index::for_node("node1");
        let policies = match self {
            Self::Removed | Self::None => vec![],
            Self::Old => old(),
            Self::New => new(),
        };
        let (alike, mixed) = match self {
            Self::New => (vec!["gateway", "store"], vec!["player", "gateway", "store"]),
            _ => (vec!["gateway"], vec!["gateway"]),
        };
        let objects = pods.iter().flat_map(Facts::objects);
        let of = |kinds: Vec<&str>| -> Vec<&Facts> {
            let backends = pods.iter();
            backends
                .filter(|pod| kinds.contains(&pod.kind.as_str()))
                .collect()
        };
        let services = [
            service("alike", ALIKE, &of(alike)),
            service("mixed", MIXED, &of(mixed)),
        ];
        let policies = policies.into_iter().map(Change::Policy);
        for change in objects
            .chain(services.into_iter().flatten())
            .chain(policies)
        {
            index.apply(change);
        }
        index.take_delta();
        index.plan().clone()
    }
}

impl fmt::Display for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Removed => "removed",
            Self::None => "none",
            Self::Old => "old",
            Self::New => "new",
        })
    }
}

/// Queues, a selector, prefixes with exceptions, ports; a policer; rules that stay.
fn old() -> Vec<Policy> {
    let to_gateways = Rule {
        to: vec![to_kinds(&["gateway"])],
        ..metered(10, 50)
    };
    let to_blocks = Rule {
        to: vec![
            block("198.51.100.0/24", &["198.51.100.64/26"]),
            block("2001:db8::/32", &["2001:db8:1::/48"]),
        ],
        ports: vec![udp_port(1), udp_port(3)],
        ..marking(11)
    };
    vec![
        policy("p", 5, "player", vec![to_gateways, to_blocks]),
        policy("lost", 5, "gateway", vec![marking(12)]),
        policy("edge", 4, "edge", vec![metered(13, 40)]),
        stays(),
        shared(&["player"]),
    ]
}

/// Other peers, prefixes, ports and rates; a pod that has rules now, and one that has none now;
/// a rule that has to police now.
fn new() -> Vec<Policy> {
    let to_port = Rule {
        ports: vec![udp_port(1)],
        ..metered(20, 60)
    };
    let to_all_kinds = Rule {
        to: vec![to_kinds(&["gateway", "store"])],
        ..metered(21, 70)
    };
    let to_blocks = Rule {
        to: vec![
            block("198.51.100.0/24", &["198.51.100.128/25", "198.51.100.0/30"]),
            block("2001:db8::/32", &["2001:db8:2::/48"]),
        ],
        ports: vec![udp_port(3), udp_port(SERVICE_PORT)],
        ..marking(22)
    };
    vec![
        policy("p", 5, "player", vec![to_port, to_blocks, to_all_kinds]),
        policy("found", 5, "store", vec![marking(23)]),
        policy("edge", 4, "edge", vec![metered(24, 30)]),
        stays(),
        shared(&["player", "edge"]),
    ]
}

fn stays() -> Policy {
    let rule = Rule {
        to: vec![block("203.0.113.0/24", &[])],
        ..metered(40, 80)
    };
    policy("stays", 9, "player", vec![rule])
}

/// A rule for pods of these kinds.
fn shared(kinds: &[&str]) -> Policy {
    let rule = Rule {
        to: vec![block("192.0.2.0/24", &[])],
        ..metered(41, 90)
    };
    Policy {
        pods: of_kinds(kinds),
        ..policy("shared", 8, "", vec![rule])
    }
}

fn metered(dscp: i64, megabits: u64) -> Rule {
    Rule {
        bandwidth: limiting(megabits).bandwidth,
        ..marking(dscp)
    }
}

fn of_kinds(kinds: &[&str]) -> LabelSelector {
    let mut requirement = Requirement::equals("kind", "");
    let kinds = kinds.iter().map(|kind| (*kind).into()).collect();
    requirement.operator = Operator::In(kinds);
    LabelSelector::new([requirement])
}

pub fn to_kinds(kinds: &[&str]) -> Destination {
    Destination::Pods(PeerSelector {
        namespaces: None,
        pods: Some(of_kinds(kinds)),
    })
}

fn block(cidr: &str, except: &[&str]) -> Destination {
    let net = |text: &str| -> IpNet { text.parse().unwrap() };
    let except = except.iter().map(|except| net(except)).collect();
    Destination::Block(IpBlock::try_new(net(cidr), except).unwrap())
}

fn service(name: &str, addresses: [&str; 2], backends: &[&Facts]) -> Vec<Change> {
    let ports = |number| {
        vec![ServicePortSpec {
            name: "udp".into(),
            protocol: Protocol::Udp,
            port: number,
        }]
    };
    let slice = |is_v6: bool| {
        let addresses = backends.iter().flat_map(|pod| &pod.addresses).copied();
        Change::EndpointSlice(EndpointSlice {
            name: ObjectName::new("games", &format!("{name}-{is_v6}")),
            service: name.into(),
            ports: ports(TARGET_PORT),
            addresses: addresses
                .filter(|address| address.is_ipv6() == is_v6)
                .collect(),
        })
    };
    vec![
        Change::Service(Service {
            name: ObjectName::new("games", name),
            addresses: addresses.map(|text| text.parse().unwrap()).into(),
            ports: ports(SERVICE_PORT),
        }),
        slice(false),
        slice(true),
    ]
}

impl Facts {
    /// What `Display` has written.
    pub fn parse(text: &str) -> Self {
        let mut words = text.split(',');
        let mut word = || words.next().unwrap().to_owned();
        Self {
            name: word(),
            kind: word(),
            is_veth: word() == "veth",
            addresses: words.map(|word| word.parse().unwrap()).collect(),
        }
    }

    pub fn id(&self) -> PodId {
        PodId {
            name: ObjectName::new("games", &self.name),
            uid: format!("uid-{}", self.name).into(),
        }
    }

    /// The pod and its interface, in the namespace of its name.
    pub fn objects(&self) -> [Change; 2] {
        self.objects_in(&Path::new("/run/netns").join(&self.name))
    }

    /// The same in another namespace.
    pub fn objects_in(&self, netns: &Path) -> [Change; 2] {
        let labels: Labels = [("name", self.name.as_str()), ("kind", self.kind.as_str())]
            .map(|(key, value)| (key.into(), value.into()))
            .into();
        let addresses: BTreeSet<IpAddr> = self.addresses.iter().copied().collect();
        let interface = Interface {
            container: self.name.clone(),
            network: "net".to_owned(),
            name: "eth0".to_owned(),
            netns: netns.to_owned(),
            ends: None,
        };
        [
            Change::Pod(mk_pod(self.id().name, labels, "node1", addresses.clone())),
            Change::Attachments {
                pod: self.id().name,
                uid: Some(self.id().uid),
                interfaces: vec![LocalInterface {
                    recorded: None,
                    network: NetworkName::Default,
                    name: "eth0".into(),
                    addresses,
                    attach: if self.is_veth {
                        Attach::HostVeth(interface)
                    } else {
                        Attach::PodNetns(interface)
                    },
                }],
            },
        ]
    }
}

impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = if self.is_veth { "veth" } else { "macvlan" };
        write!(f, "{},{},{way}", self.name, self.kind)?;
        for address in &self.addresses {
            write!(f, ",{address}")?;
        }
        Ok(())
    }
}
