//! A node of the benchmark's own, with pods, policies, and what is in force.

use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU16;
use std::thread;

use anyhow::{Context, Result, anyhow, ensure};
use netqos_api::HookChoice;
use netqos_bpf::rules::Rules;
use netqos_core::objects::{LocalInterface, NetworkName, Pod as PodObject};
use netqos_core::plan::{Attach, Interface};
use netqos_core::{
    Destination, Dscp, IpBlock, LabelSelector, Labels, Mode, NetworkChoice, ObjectName,
    PeerSelector, Policy, PortMatch, Priority, Protocol, Requirement, Rule,
};
use netqos_datapath::Paths;
use netqos_datapath::rules::{Outcome, RuleDatapath};
use netqos_index::{Change, Index};
use netqos_testkit::{Node, Pod, mk_pod};

pub const NODE: &str = "node1";
pub const NAMESPACE: &str = "bench";
/// Rules in an object.
pub const RULES: usize = 20;
/// Where packets go for which the last rule is: to this port, in this network, which is that of
/// the testkit's pods and their gateways.
pub const SINK: u16 = 8192;
pub const SINK_NETWORK: (Ipv4Addr, u8) = (Ipv4Addr::new(10, 99, 0, 0), 16);
/// What the last rule marks with.
pub const SINK_MARK: u8 = 46;

/// A node, and what is in force there.
pub struct Stage {
    pub node: Node,
    pub index: Index,
    pub rules: RuleDatapath,
}

/// Does something on a node of its own, which is a thread's.
pub fn on_a_node<T: Send>(act: impl FnOnce(Node) -> Result<T> + Send) -> Result<T> {
    thread::scope(|scope| {
        let thread = scope.spawn(|| act(new_node()?));
        let result = thread.join();
        result.map_err(|_| anyhow!("a measurement panicked"))?
    })
}

/// Makes the calling thread a node.
pub fn new_node() -> Result<Node> {
    Node::new()?.context("the benchmark makes network namespaces, which needs root")
}

impl Stage {
    /// With nothing in force.
    pub fn on(node: Node) -> Result<Self> {
        Ok(Self {
            node,
            index: Index::for_node(NODE),
            rules: RuleDatapath::open(paths(), HookChoice::Auto)?,
        })
    }

    /// Puts these changes in force.
    pub fn apply(&mut self, changes: impl IntoIterator<Item = Change>) -> Result<Outcome> {
        for change in changes {
            self.index.apply(change);
        }
        let delta = self.index.take_delta();
        let outcome = self.rules.apply(self.index.plan(), &delta);
        ensure!(outcome.problems.is_empty(), "{:?}", outcome.problems);
        Ok(outcome)
    }

    /// A pod of this kind on the node.
    pub fn pod(&mut self, name: &str, kind: &str) -> Result<Pod> {
        let pod = self.node.pod(name)?;
        let address: IpAddr = pod.address().parse()?;
        let object = object(name, kind, Some(NODE), address);
        let attached = attachment(&object, &pod);
        self.apply([Change::Pod(object), attached])?;
        Ok(pod)
    }
}

/// Where a node of the benchmark's own has its files.
pub fn paths() -> Paths {
    Paths::from_variables(|_| None)
}

/// The tables of the calling thread's node.
pub fn tables() -> Result<Rules> {
    Rules::open(paths().bpffs())?.context("no program is loaded")
}

/// A pod's object.
pub fn object(name: &str, kind: &str, node: Option<&str>, address: IpAddr) -> PodObject {
    let labels = Labels::from([("kind".into(), kind.into())]);
    let name = ObjectName::new(NAMESPACE, name);
    mk_pod(name, labels, node.unwrap_or("elsewhere"), [address])
}

/// Its interface.
pub fn attachment(object: &PodObject, pod: &Pod) -> Change {
    let addresses = object.addresses.iter().flat_map(|one| &one.addresses);
    Change::Attachments {
        pod: object.id.name.clone(),
        uid: Some(object.id.uid.clone()),
        interfaces: vec![LocalInterface {
            recorded: None,
            network: NetworkName::Default,
            name: "eth0".into(),
            addresses: addresses.copied().collect(),
            attach: Attach::HostVeth(Interface {
                container: pod.name().to_owned(),
                network: "bench".to_owned(),
                name: "eth0".to_owned(),
                netns: pod.netns(),
                ends: None,
            }),
        }],
    }
}

/// The name of the policy of this number for a kind of pods.
pub fn policy_name(kind: &str, number: usize) -> ObjectName {
    ObjectName::new(NAMESPACE, &format!("{kind}-{number}"))
}

/// A policy for this kind of pods.
pub fn policy(kind: &str, number: usize, rules: Vec<Rule>) -> Policy {
    Policy {
        name: policy_name(kind, number),
        priority: Priority::try_new((number % 100) as i64).unwrap_or_default(),
        networks: NetworkChoice::Default,
        pods: LabelSelector::new([Requirement::equals("kind", kind)]),
        rules,
    }
}

/// A rule for everything, which marks.
pub fn marking(number: usize) -> Rule {
    Rule {
        to: Vec::new(),
        ports: Vec::new(),
        dscp: Dscp::try_new((number % 64) as i64).ok(),
        bandwidth: None,
        mode: Mode::Enforce,
    }
}

/// The same for pods of a kind.
pub fn marking_to(kind: &str, number: usize) -> Rule {
    let pods = LabelSelector::new([Requirement::equals("kind", kind)]);
    Rule {
        to: vec![Destination::Pods(PeerSelector {
            namespaces: None,
            pods: Some(pods),
        })],
        ..marking(number)
    }
}

/// The block and the port that the rule of this number is for; that of number 0 for the sink.
pub fn block(number: usize) -> ((Ipv4Addr, u8), u16) {
    match number {
        0 => (SINK_NETWORK, SINK),
        _ => {
            let network = Ipv4Addr::from(0xC000_0000 + (number as u32) * 256);
            ((network, 24), number as u16)
        }
    }
}

/// So many rules in objects of twenty, each for a block and a UDP port of its own, for pods of this
/// kind. That for the sink is the last to win: who looks at rules one by one looks at all of them.
pub fn policies(kind: &str, rules: usize) -> Vec<Policy> {
    let rule = |number: usize| {
        let ((network, length), port) = block(number);
        let network = ipnet::Ipv4Net::new(network, length).ok();
        let block = network.and_then(|net| IpBlock::try_new(net.into(), Vec::new()).ok());
        Rule {
            to: block.map(Destination::Block).into_iter().collect(),
            ports: vec![PortMatch {
                protocol: Some(Protocol::Udp),
                port: NonZeroU16::new(port),
            }],
            ..marking(mark(number))
        }
    };
    (0..rules.div_ceil(RULES))
        .map(|place| {
            let numbers = place * RULES..rules.min((place + 1) * RULES);
            policy(kind, place, numbers.map(rule).collect())
        })
        .collect()
}

/// What the rule of this number marks with.
pub fn mark(number: usize) -> usize {
    match number {
        0 => SINK_MARK.into(),
        number => number % 64,
    }
}
