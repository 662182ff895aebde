//! Random clusters through the index and the engine into the program's tables, and random packets
//! through the program: it decides as the reference matcher, the plan and the explanation do, and
//! changes nothing of a packet but its mark.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;

use netqos_api::HookChoice;
use netqos_bpf::rules::{CounterKey, Rules, Verdict};
use netqos_core::objects::NetworkName;
use netqos_core::plan::{Packet, RuleId};
use netqos_core::{
    Digest, Dscp, EndpointId, IpBlock, LabelSelector, Mode, NetworkChoice, NetworkKey, NodePlan,
    ObjectName, Policy, PortMatch, Priority, Problem, Protocol, Reason, Rule,
};
use netqos_datapath::Paths;
use netqos_datapath::rules::{Outcome, RuleDatapath};
use netqos_index::{Change, Index, Outcome as Explained, Query, To, Via};
use netqos_testkit::Node;
use netqos_testkit::index::arbitrary::{change, changes_to, config, note, packet, rule};
use netqos_testkit::index::objects::{NODE, attached, index, interface, ip, name, pod, policy};
use netqos_testkit::reference::{Cluster, Decision};
use netqos_testkit::rules::frame::{
    AUTHENTICATION, DESTINATION, DOT1AD, DOT1Q, FRAGMENT, Frame, HOP_BY_HOP, Part, ROUTING,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use proptest::test_runner::{TestCaseError, TestRunner};

/// The file that names the namespace of all interfaces (`objects::interface`).
const POD: &str = "c";

/// A rule, as its counters name it.
type Counted = BTreeMap<u64, (u64, u64)>;

/// What is in force.
struct Kernel {
    _node: Node,
    datapath: RuleDatapath,
    rules: Rules,
    plan: NodePlan,
}

/// What of a packet a rule must not be about.
#[derive(Clone, Debug)]
struct Dressing {
    class: u8,
    tags: Vec<u16>,
    options: usize,
    extensions: Vec<u8>,
    is_first_fragment: bool,
    other_protocol: Option<u8>,
    payload: Vec<u8>,
}

fn dressing() -> impl Strategy<Value = Dressing> {
    let extension = select(&[HOP_BY_HOP, DESTINATION, ROUTING, AUTHENTICATION, FRAGMENT][..]);
    (
        any::<u8>(),
        vec(select(&[DOT1Q, DOT1AD][..]), 0..3),
        0..11_usize,
        vec(extension, 0..5),
        prop::bool::weighted(0.1),
        // Protocols without ports, GRE and ESP among them, and UDP-Lite, which has some.
        option::weighted(0.5, select(&[2_u8, 47, 50, 89, 136][..])),
        vec(any::<u8>(), 0..40),
    )
        .prop_map(
            |(class, tags, options, extensions, is_first_fragment, other_protocol, payload)| {
                Dressing {
                    class,
                    tags,
                    options,
                    extensions,
                    is_first_fragment,
                    other_protocol,
                    payload,
                }
            },
        )
}

impl Dressing {
    fn on(&self, packet: &Packet) -> Frame {
        let mut frame = Frame {
            class: self.class,
            tags: self.tags.clone(),
            options: self.options,
            extensions: self.extensions.clone(),
            payload: self.payload.clone(),
            ..Frame::of(packet)
        };
        if self.is_first_fragment && frame.part == Part::Whole {
            frame.part = Part::First;
        }
        if frame.part != Part::Whole {
            // One header of fragments is enough.
            frame.extensions.retain(|kind| *kind != FRAGMENT);
        }
        if packet.protocol.is_none() {
            frame.protocol = self.other_protocol.unwrap_or(frame.protocol);
        }
        frame
    }
}

/// A policy with so many rules that a chain has several words, a few of which are for anything.
fn long_policy() -> impl Strategy<Value = Change> {
    let rules = vec((any::<prop::sample::Index>(), rule()), 0..8);
    (
        select(&["a/long", "b/long"][..]),
        65..400_usize,
        rules,
        0_i64..3,
    )
        .prop_map(|(of, length, rules, priority)| {
            let mut all = vec![never(); length];
            for (place, rule) in rules {
                all[place.index(length)] = rule;
            }
            Change::Policy(policy(of, priority, all))
        })
}

/// A rule that no packet of these tests meets.
fn never() -> Rule {
    Rule {
        to: vec![],
        ports: vec![PortMatch {
            protocol: Some(Protocol::Tcp),
            port: std::num::NonZeroU16::new(9),
        }],
        dscp: Dscp::try_new(63).ok(),
        bandwidth: None,
        mode: Mode::Enforce,
    }
}

/// A cluster with some of whose pods the node has to do.
fn changes() -> impl Strategy<Value = Vec<Change>> {
    let here = subsequence(vec!["a/p", "a/q", "b/p", "b/r", "c/q"], 1..4);
    let cluster = vec(change(rule()), 20..80);
    (cluster, vec(long_policy(), 0..2), here).prop_map(|(mut changes, long, here)| {
        changes.extend(long);
        for pod in here {
            let eth0 = interface("eth0", NetworkName::Default, &["10.0.0.1"]);
            changes.push(attached(pod, vec![eth0]));
        }
        changes
    })
}

impl Kernel {
    /// `None` when the test has to be skipped.
    fn new() -> Option<Self> {
        let node = Node::new().unwrap()?;
        let pod = node.pod(POD).unwrap();
        for name in ["net1", "net2"] {
            pod.another_veth(&node, name).unwrap();
        }
        Some(Self {
            datapath: RuleDatapath::open(Paths::from_variables(|_| None), HookChoice::None)
                .unwrap(),
            rules: Rules::open(Path::new("/sys/fs/bpf")).unwrap().unwrap(),
            plan: NodePlan::default(),
            _node: node,
        })
    }

    fn put_in_force(&mut self, plan: &NodePlan) -> Outcome {
        let delta = self.plan.delta_to(plan);
        let has_services = [&self.plan, plan].iter().any(|it| !it.services.is_empty());
        self.plan = plan.clone();
        let outcome = self.datapath.apply(plan, &delta);
        match has_services {
            // Until then, some backends count as the virtual address.
            true => self.datapath.finish(plan),
            false => outcome,
        }
    }

    /// What was counted for this endpoint. Whatever is of earlier cases goes.
    fn counted(&self, endpoint: u16) -> Counted {
        let own = |key: &CounterKey| key.endpoint() == u32::from(endpoint);
        self.rules.counters.retain(own).unwrap();
        let all = self.rules.counters.all().unwrap();
        all.into_iter()
            .map(|(key, counter)| (key.rule, (counter.packets, counter.marked)))
            .collect()
    }

    /// Runs the frame until its rules have counters: the kernel may have no memory at hand for two
    /// new ones in one packet, and then counts from the next packet on.
    fn warm_up(&self, endpoint: u16, frame: &Frame) {
        for _ in 0..2 {
            self.rules.run(endpoint, &frame.bytes(), 1).unwrap();
        }
    }
}

/// What the plan says.
fn planned(plan: &NodePlan, endpoint: &EndpointId, packet: Packet) -> Decision {
    let Some(chain) = plan.endpoints[endpoint].chain else {
        return Decision::default();
    };
    let chain = &plan.chains[&chain];
    let verdict = plan.classify(chain, &endpoint.network, packet);
    let id = |place: usize| -> RuleId { chain.rules[place].id.clone() };
    Decision {
        winner: verdict.winner.map(id),
        shadow: verdict.shadow.map(id),
    }
}

/// What the explanation says: where that depends on the backend, of the virtual address.
fn explained(index: &Index, from: &ObjectName, network: &NetworkKey, packet: Packet) -> Decision {
    let explanation = index.explain(&Query {
        from: from.clone(),
        network: network.clone(),
        to: To::Address(packet.destination),
        protocol: packet.protocol,
        port: packet.port,
    });
    let virtual_address = explanation.cases.iter();
    let virtual_address = virtual_address
        .filter(|case| matches!(case.via, Via::VirtualAddress(_)))
        .map(|case| case.outcome.clone())
        .next();
    match explanation.outcome.or(virtual_address) {
        Some(Explained { winner, shadow, .. }) => Decision { winner, shadow },
        None => Decision::default(),
    }
}

/// What a frame becomes, and what is counted for it.
fn expected(
    cluster: &Cluster,
    decision: &Decision,
    frame: &Frame,
    counts: &mut Counted,
) -> Vec<u8> {
    let mut count = |id: &RuleId| -> Option<u8> {
        let dscp = cluster.policies[&id.policy].rules[usize::from(id.index)].dscp;
        let counted = counts.entry(Digest::of(id).get()).or_default();
        counted.0 += 1;
        counted.1 += u64::from(dscp.is_some());
        dscp.map(Dscp::get)
    };
    decision.shadow.as_ref().map(&mut count);
    match decision.winner.as_ref().and_then(count) {
        Some(dscp) => frame.marked(dscp),
        None => frame.bytes(),
    }
}

#[test]
fn on_random_policies_and_packets() {
    let Some(kernel) = Kernel::new() else {
        return;
    };
    let kernel = RefCell::new(kernel);
    let tried = RefCell::new([0_u64; 4]);
    let case = |(changes, packets): (Vec<Change>, Vec<(Packet, Dressing)>)| {
        let mut cluster = Cluster {
            node: NODE.into(),
            ..Cluster::default()
        };
        for change in changes {
            note(&mut cluster, change);
        }
        let index = index(changes_to(&cluster, false));
        let kernel = &mut *kernel.borrow_mut();
        let outcome = kernel.put_in_force(index.plan());
        // Which backend a connection goes to is not to be known on every kernel; it is said, and the
        // virtual address counts, as here, where there are no connections.
        let is_known = |problem: &Problem| problem.reason == Reason::KernelFeatureMissing;
        prop_assert!(
            outcome.problems.iter().all(is_known),
            "{:?}",
            outcome.problems
        );
        for (id, status) in outcome.endpoints.iter() {
            let from = &index.plan().endpoints[id].pod.name;
            for (packet, dressing) in &packets {
                kernel.warm_up(status.number, &dressing.on(packet));
            }
            let mut counts = kernel.counted(status.number);
            for (packet, dressing) in &packets {
                let right = cluster.decide(from, &id.network, *packet);
                let what = || format!("{from} on {} {packet:?} {dressing:?}", id.network);
                let plan = planned(index.plan(), id, *packet);
                prop_assert_eq!(&plan, &right, "planned: {}", what());
                let explained = explained(&index, from, &id.network, *packet);
                prop_assert_eq!(&explained, &right, "explained: {}", what());
                let frame = dressing.on(packet);
                let ran = kernel.rules.run(status.number, &frame.bytes(), 1).unwrap();
                prop_assert_eq!(ran.verdict, Verdict::Next);
                let right_bytes = expected(&cluster, &right, &frame, &mut counts);
                prop_assert_eq!(&ran.packet, &right_bytes, "{:?}: {}", &right, what());
                let [all, won, shadow, far] = &mut *tried.borrow_mut();
                *all += 1;
                *won += u64::from(right.winner.is_some());
                *shadow += u64::from(right.shadow.is_some());
                *far += u64::from(right.winner.is_some_and(|rule| rule.index > 63));
            }
            prop_assert_eq!(kernel.counted(status.number), counts, "{}", from);
        }
        Ok::<(), TestCaseError>(())
    };
    let packets = vec((packet(), dressing()), 24);
    let mut runner = TestRunner::new(ProptestConfig {
        max_shrink_iters: 2000,
        ..config()
    });
    let result = runner.run(&(changes(), packets), case);
    let [all, won, shadow, far] = *tried.borrow();
    println!("{all} packets: {won} won, {shadow} of a shadow's, {far} by a rule after the 64th");
    result.unwrap();
    let enough = u64::from(runner.config().cases) / 10;
    assert!(won > 5 * enough && won < all - enough, "{won} of {all}");
    assert!(shadow > enough && far > enough, "{shadow}, {far}");
}

/// All rules of the longest chain that there may be, each by a packet of its own.
#[test]
fn by_each_of_1024_rules() {
    let Some(mut kernel) = Kernel::new() else {
        return;
    };
    // Even ones by block, odd ones by port, and each third only for a pod.
    let rules = |policy: u16| {
        (0..256_u16).map(move |place| {
            let number = policy * 256 + place;
            let block = format!("10.{}.{}.0/24", 1 + number / 256, number % 256);
            let block = IpBlock::try_new(block.parse().unwrap(), vec![]).unwrap();
            let by_port = |of: u16| PortMatch {
                protocol: Some(Protocol::Udp),
                port: std::num::NonZeroU16::new(of),
            };
            let (to, ports) = match number % 2 {
                0 => (vec![netqos_core::Destination::Block(block)], vec![]),
                _ => (vec![], vec![by_port(1000 + number)]),
            };
            Rule {
                to,
                ports,
                dscp: Dscp::try_new(i64::from(number % 64)).ok(),
                bandwidth: None,
                mode: Mode::Enforce,
            }
        })
    };
    let mut cluster = Cluster {
        node: NODE.into(),
        ..Cluster::default()
    };
    let sender = netqos_core::objects::Pod {
        node: Some(NODE.into()),
        ..pod("a/sender", &[], &[])
    };
    note(&mut cluster, Change::Pod(sender));
    let eth0 = interface("eth0", NetworkName::Default, &["10.0.0.1"]);
    note(&mut cluster, attached("a/sender", vec![eth0]));
    for number in 0..4 {
        let own = Policy {
            networks: NetworkChoice::Default,
            pods: LabelSelector::everything(),
            priority: Priority::try_new(i64::from(number)).unwrap(),
            ..policy(&format!("a/p{number}"), 0, rules(number).collect())
        };
        note(&mut cluster, Change::Policy(own));
    }
    let index = index(changes_to(&cluster, true));
    let outcome = kernel.put_in_force(index.plan());
    assert_eq!(outcome.problems, []);
    let (id, status) = outcome.endpoints.first_key_value().unwrap();
    assert_eq!(
        index.plan().chains.values().next().unwrap().rules.len(),
        1024
    );
    let mut counts = Counted::new();
    for number in 0..1024_u16 {
        let (address, port) = match number % 2 {
            0 => (format!("10.{}.{}.7", 1 + number / 256, number % 256), 999),
            _ => ("192.0.2.1".to_owned(), 1000 + number),
        };
        let packet = Packet {
            destination: ip(&address),
            protocol: Some(Protocol::Udp),
            port: Some(port),
        };
        let right = cluster.decide(&name("a/sender"), &id.network, packet);
        assert!(right.winner.is_some());
        let frame = Frame {
            class: 1,
            ..Frame::of(&packet)
        };
        let ran = kernel.rules.run(status.number, &frame.bytes(), 1).unwrap();
        let right_bytes = expected(&cluster, &right, &frame, &mut counts);
        assert_eq!(ran.packet, right_bytes, "{number}: {right:?}");
    }
    assert_eq!(counts.len(), 1024);
    assert_eq!(kernel.counted(status.number), counts);
}
