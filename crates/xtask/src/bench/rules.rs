//! What rules per destination cost: the program for a packet, the index and the kernel for a change.
//!
//! On a node of the benchmark's own, with real pods. Nothing is compared with others here: the
//! figures to reach stand beside each.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use netqos_api::HookChoice;
use netqos_bpf::rules::Rules;
use netqos_core::objects::{LocalInterface, NetworkName, Pod as PodObject, PodAddresses};
use netqos_core::plan::{Attach, Interface};
use netqos_core::{
    BitRate, Destination, Dscp, IpBlock, LabelSelector, Labels, Limits, Mode, NetworkChoice,
    NetworkKey, ObjectName, PeerSelector, PodId, Policy, PortMatch, Priority, Protocol,
    Requirement, Rule,
};
use netqos_datapath::Paths;
use netqos_datapath::rules::{Outcome, RuleDatapath};
use netqos_index::{Change, Index};
use netqos_testkit::{Node, Pod};
use netqos_traffic::{Flow, Server, UdpTest};
use serde::{Deserialize, Serialize};

use super::{busy_seconds, median};

const NODE: &str = "node1";
const NAMESPACE: &str = "bench";
/// Rules in an object.
const RULES: usize = 20;
/// Runs of the program for one figure.
const RUNS: u32 = 400_000;
/// Packets per second, live: what one core sends without a gap.
const DATAGRAM: usize = 64;
const LIVE_RATE: BitRate = BitRate::from_bits_per_second(25_000_000);

/// How thoroughly rules are measured.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// How often each measurement of traffic is repeated; the least counts.
    #[arg(long, default_value_t = 5)]
    repeats: usize,
    /// Peers in the large case.
    #[arg(long, default_value_t = 100_000)]
    peers: u32,
    /// Where the table goes.
    #[arg(long, default_value = "docs/benchmarks-rules.md")]
    table: PathBuf,
    /// Where the figures go, for machines.
    #[arg(long, default_value = "target/bench/rules.json")]
    json: PathBuf,
}

/// The figures of one run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Measured {
    pub kernel: String,
    pub cores: usize,
    pub repeats: usize,
    pub packets: Vec<PerPacket>,
    pub many_peers: ManyPeers,
    pub changes: Changes,
}

/// What a packet costs with so many rules in its pod's chain.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PerPacket {
    pub rules: usize,
    /// Nanoseconds of the program, one destination again and again, and another each time.
    pub program: f64,
    pub program_scattered: f64,
    /// Nanoseconds that the whole machine is busier for each packet, live.
    pub live: f64,
}

/// Very many peers in a hundred rules.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ManyPeers {
    pub peers: u32,
    pub bytes_each: f64,
    /// Writes to the kernel when one comes.
    pub writes: u64,
    /// Nanoseconds of the program with few of them, and with all.
    pub lookup_before: f64,
    pub lookup_after: f64,
}

/// What changes cost, in microseconds: half of them at most, all but one in a hundred at most.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Changes {
    pub pods: u32,
    pub policies: u32,
    pub peer_index: (f64, f64),
    pub peer_kernel: (f64, f64),
    pub rule: (f64, f64),
    pub rule_with_rate: (f64, f64),
}

/// A node with pods, and what is in force.
struct Bench {
    node: Node,
    index: Index,
    rules: RuleDatapath,
}

/// Measures, and writes the table.
pub fn run(arguments: &Arguments) -> Result<()> {
    let node = Node::new()?.context("the benchmark makes network namespaces, which needs root")?;
    let mut bench = Bench {
        node,
        index: Index::for_node(NODE),
        rules: RuleDatapath::open(Paths::from_variables(|_| None), HookChoice::Auto)?,
    };
    let measured = Measured {
        kernel: std::fs::read_to_string("/proc/sys/kernel/osrelease")?
            .trim()
            .to_owned(),
        cores: std::thread::available_parallelism()?.get(),
        repeats: arguments.repeats,
        packets: bench.packets(arguments.repeats)?,
        many_peers: bench.many_peers(arguments.peers)?,
        changes: bench.changes()?,
    };
    super::report::write_json(&arguments.json, &measured)?;
    super::report::write_rules(&arguments.table, &measured)
}

impl Bench {
    fn apply(&mut self, changes: impl IntoIterator<Item = Change>) -> Result<Outcome> {
        for change in changes {
            self.index.apply(change);
        }
        let delta = self.index.take_delta();
        let outcome = self.rules.apply(self.index.plan(), &delta);
        ensure!(outcome.problems.is_empty(), "{:?}", outcome.problems);
        Ok(outcome)
    }

    /// A pod of this kind on the node.
    fn pod(&mut self, name: &str, kind: &str) -> Result<Pod> {
        let pod = self.node.pod(name)?;
        let address: IpAddr = pod.address().parse()?;
        let object = object(name, kind, Some(NODE), address);
        let attached = Change::Attachments {
            pod: object.id.name.clone(),
            uid: Some(object.id.uid.clone()),
            interfaces: vec![LocalInterface {
                network: NetworkName::Default,
                name: "eth0".into(),
                addresses: [address].into(),
                attach: Attach::HostVeth(Interface {
                    container: name.to_owned(),
                    network: "bench".to_owned(),
                    name: "eth0".to_owned(),
                    netns: pod.netns(),
                }),
            }],
        };
        self.apply([Change::Pod(object), attached])?;
        Ok(pod)
    }

    /// Nanoseconds of the program for packets to these addresses.
    fn program(&self, to: &[IpAddr]) -> Result<f64> {
        let rules = Rules::open(Paths::from_variables(|_| None).bpffs())?;
        let rules = rules.context("no program is loaded")?;
        let endpoints = rules.endpoints.all()?;
        let (_, endpoint) = endpoints
            .iter()
            .find(|(number, endpoint)| *number != 0 && endpoint.chain != 0)
            .context("no endpoint has rules")?;
        rules.endpoints.put(&0, endpoint)?;
        let each = RUNS / u32::try_from(to.len())?;
        let mut best = f64::INFINITY;
        for _ in 0..5 {
            let mut sum = 0.0;
            for address in to {
                let ran = rules.run_repeatedly(&frame(*address), each)?;
                sum += ran.took.as_nanos() as f64;
            }
            best = best.min(sum / to.len() as f64);
        }
        Ok(best)
    }

    fn packets(&mut self, repeats: usize) -> Result<Vec<PerPacket>> {
        let pod = self.pod("sender", "sender")?;
        let other = self.pod("receiver", "receiver")?;
        let address: IpAddr = other.address().parse()?;
        let server = other.inside(|| Server::bind(SocketAddr::new(address, 0)))??;
        let test = UdpTest {
            flow: Flow::Upload,
            size: DATAGRAM,
            duration: Duration::from_secs(2),
            ..UdpTest::new(server.local_addr(), LIVE_RATE)
        };
        let live = || -> Result<f64> {
            let before = busy_seconds()?;
            let report = pod.inside(|| test.run(|_| ()))??;
            let busy = busy_seconds()? - before;
            Ok(busy * 1e9 / report.received.max(1) as f64)
        };
        let counts = [1, 20, 100, 1000];
        let mut busy: Vec<Vec<f64>> = vec![Vec::new(); counts.len() + 1];
        let mut found = Vec::new();
        for repeat in 0..repeats {
            self.apply((0..50).map(|n| Change::PolicyGone(policy_name(n))))?;
            busy[0].push(live()?);
            for (place, count) in counts.into_iter().enumerate() {
                self.apply(policies(count).into_iter().map(Change::Policy))?;
                busy[place + 1].push(live()?);
                if repeat == 0 {
                    let scattered: Vec<IpAddr> = (0..1000_u32)
                        .map(|n| Ipv4Addr::from(0x0A63_0000 + n * 131 % 65_536).into())
                        .collect();
                    found.push(PerPacket {
                        rules: count,
                        program: self.program(&[address])?,
                        program_scattered: self.program(&scattered)?,
                        live: 0.0,
                    });
                }
            }
        }
        let none = median(busy[0].clone());
        for (one, with) in found.iter_mut().zip(&busy[1..]) {
            one.live = median(with.clone()) - none;
        }
        self.apply((0..50).map(|n| Change::PolicyGone(policy_name(n))))?;
        Ok(found)
    }

    /// Peers in a hundred rules, each with a selector of its own.
    fn many_peers(&mut self, peers: u32) -> Result<ManyPeers> {
        let rule = |number: usize| Rule {
            to: vec![Destination::Pods(PeerSelector {
                namespaces: None,
                pods: Some(LabelSelector::new([Requirement::equals(
                    "kind",
                    &format!("kind-{number}"),
                )])),
            })],
            ..marking(number)
        };
        let policies = (0..5).map(|place| {
            let rules = (0..RULES).map(|n| rule(place * RULES + n)).collect();
            Change::Policy(policy(place, rules))
        });
        self.apply(policies)?;
        let peer = |number: u32| {
            let address = Ipv4Addr::from(0x0A64_0000 + number).into();
            let kind = format!("kind-{}", number % 100);
            Change::Pod(object(&format!("peer-{number}"), &kind, None, address))
        };
        self.apply((0..100).map(peer))?;
        let to: Vec<IpAddr> = (0..100_u32)
            .map(|n| Ipv4Addr::from(0x0A64_0000 + n).into())
            .collect();
        let lookup_before = self.program(&to)?;
        self.apply((100..peers).map(peer))?;
        let lookup_after = self.program(&to)?;
        let rules = Rules::open(Paths::from_variables(|_| None).bpffs())?;
        let mut rules = rules.context("no program is loaded")?;
        let mut bytes = 0;
        for network in rules.networks.networks()? {
            bytes += rules.networks.bytes(network)?;
        }
        let on_default = |key: &&(NetworkKey, IpAddr)| key.0 == NetworkKey::Default;
        let count = self.index.plan().peers.keys().filter(on_default).count();
        let writes = self.apply([peer(peers)])?.changes;
        self.apply((0..5).map(|n| Change::PolicyGone(policy_name(n))))?;
        Ok(ManyPeers {
            peers,
            bytes_each: bytes as f64 / count.max(1) as f64,
            writes,
            lookup_before,
            lookup_after,
        })
    }

    /// 5,000 pods and 1,000 policies, of which those of one namespace are this node's.
    fn changes(&mut self) -> Result<Changes> {
        const PODS: u32 = 5_000;
        const POLICIES: u32 = 1_000;
        let of_others = (0..POLICIES - 2).map(|number| {
            let mut policy = policy(number as usize, vec![marking(1)]);
            policy.name = ObjectName::new(&format!("team-{}", number % 100), &format!("p{number}"));
            policy.pods = LabelSelector::new([Requirement::equals("app", &number.to_string())]);
            Change::Policy(policy)
        });
        self.apply(of_others)?;
        let to_peers = Rule {
            to: vec![Destination::Pods(PeerSelector {
                namespaces: None,
                pods: Some(LabelSelector::new([Requirement::equals("kind", "peer")])),
            })],
            ..marking(10)
        };
        let named = |rule: Rule| Change::Policy(policy(0, vec![rule]));
        let peer = |number: u32, address: u32| {
            let address = Ipv4Addr::from(0x0A80_0000 + address).into();
            Change::Pod(object(&format!("far-{number}"), "peer", None, address))
        };
        self.apply([named(to_peers.clone())])?;
        self.apply((0..PODS).map(|number| peer(number, number)))?;
        let (mut index, mut kernel) = (Vec::new(), Vec::new());
        for number in 0..2_000 {
            let change = peer(number, PODS + number);
            let start = Instant::now();
            self.index.apply(change);
            let delta = self.index.take_delta();
            index.push(micros(start));
            let start = Instant::now();
            let outcome = self.rules.apply(self.index.plan(), &delta);
            kernel.push(micros(start));
            ensure!(outcome.problems.is_empty(), "{:?}", outcome.problems);
        }
        let mut rule = Vec::new();
        let mut with_rate = Vec::new();
        for round in 0..200_u64 {
            let mark = Dscp::try_new((round % 60) as i64)?;
            let other = Rule {
                dscp: Some(mark),
                ..to_peers.clone()
            };
            let start = Instant::now();
            self.apply([named(other)])?;
            rule.push(micros(start));
            let limited = Rule {
                bandwidth: Some(netqos_core::Bandwidth {
                    rate: BitRate::from_bits_per_second(10_000_000 + round * 1000),
                    burst: None,
                }),
                ..to_peers.clone()
            };
            let start = Instant::now();
            self.apply([named(limited)])?;
            with_rate.push(micros(start));
        }
        self.rules.tidy()?;
        Ok(Changes {
            pods: PODS,
            policies: POLICIES,
            peer_index: quantiles(index),
            peer_kernel: quantiles(kernel),
            rule: quantiles(rule),
            rule_with_rate: quantiles(with_rate),
        })
    }
}

fn micros(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e6
}

/// The median, and what 99 of 100 are at most.
fn quantiles(mut times: Vec<f64>) -> (f64, f64) {
    times.sort_by(f64::total_cmp);
    let at = |percent: usize| times.get(times.len() * percent / 100).copied();
    (at(50).unwrap_or(f64::NAN), at(99).unwrap_or(f64::NAN))
}

fn object(name: &str, kind: &str, node: Option<&str>, address: IpAddr) -> PodObject {
    PodObject {
        id: PodId {
            name: ObjectName::new(NAMESPACE, name),
            uid: format!("uid-{name}").into(),
        },
        labels: Labels::from([("kind".into(), kind.into())]),
        node: Some(node.unwrap_or("elsewhere").into()),
        host_network: false,
        finished: false,
        limits: Limits::default(),
        addresses: vec![PodAddresses {
            network: NetworkName::Default,
            interface: None,
            addresses: [address].into(),
        }],
    }
}

fn policy_name(number: usize) -> ObjectName {
    ObjectName::new(NAMESPACE, &format!("policy-{number}"))
}

fn policy(number: usize, rules: Vec<Rule>) -> Policy {
    Policy {
        name: policy_name(number),
        priority: Priority::try_new((number % 100) as i64).unwrap_or_default(),
        networks: NetworkChoice::Default,
        pods: LabelSelector::new([Requirement::equals("kind", "sender")]),
        rules,
    }
}

fn marking(number: usize) -> Rule {
    Rule {
        to: Vec::new(),
        ports: Vec::new(),
        dscp: Dscp::try_new((number % 64) as i64).ok(),
        bandwidth: None,
        mode: Mode::Enforce,
    }
}

/// So many rules in objects of twenty, each for a block and a port of its own; the last to win is
/// for everything, so that a packet has a rule whatever it is.
fn policies(rules: usize) -> Vec<Policy> {
    let rule = |number: usize| {
        if number == 0 {
            return marking(0);
        }
        let network = Ipv4Addr::from(0xC000_0000 + (number as u32) * 256);
        let block = ipnet::Ipv4Net::new(network, 24)
            .ok()
            .and_then(|net| IpBlock::try_new(net.into(), Vec::new()).ok());
        Rule {
            to: block.map(Destination::Block).into_iter().collect(),
            ports: vec![PortMatch {
                protocol: Some(Protocol::Udp),
                port: std::num::NonZeroU16::new(number as u16),
            }],
            ..marking(number)
        }
    };
    (0..rules.div_ceil(RULES))
        .map(|place| {
            let numbers = place * RULES..rules.min((place + 1) * RULES);
            policy(place, numbers.map(rule).collect())
        })
        .collect()
}

/// A UDP datagram to this address, in an Ethernet frame.
fn frame(to: IpAddr) -> Vec<u8> {
    let mut frame = vec![0; 12];
    frame.extend([
        0x08, 0x00, 0x45, 0, 0, 46, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 2,
    ]);
    if let IpAddr::V4(to) = to {
        frame.extend(to.octets());
    }
    frame.extend([0x10, 0, 0x20, 0, 0, 26, 0, 0]);
    frame.extend([0; 18]);
    frame
}
