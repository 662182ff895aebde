//! A process that is killed while it puts rules in force: the next one ends where an undisturbed
//! one ends, and until then packets meet the old rules or the new ones.
//!
//! The process is this program itself, started again with [`SCENARIO`] set, which is why it has
//! a `main` of its own.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "../rules_packets/wire.rs"]
#[allow(dead_code, reason = "others send with it, too")]
mod wire;
#[path = "../rules/world.rs"]
mod world;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::net::{IpAddr, UdpSocket};
use std::path::Path;

use netqos_api::HookChoice;
use netqos_bpf::Pins;
use netqos_bpf::rules::Rules;
use netqos_core::objects::{LocalInterface, NetworkName, Pod as PodObject, PodAddresses};
use netqos_core::plan::{Attach, Interface};
use netqos_core::{Labels, Limits, NodePlan, ObjectName, PodId, Rule};
use netqos_datapath::Paths;
use netqos_datapath::rules::{RuleDatapath, remove_all};
use netqos_index::{Change, Index};
use netqos_netlink::Socket;
use netqos_testkit::{Call, Node, Pod};

use crate::wire::Wire;
use crate::world::{limiting, marking, policy, to_pod, udp_port};

/// Which rules the process puts in force: `none`, `old` or `new`.
const SCENARIO: &str = "NETQOS_TEST_SCENARIO";
const HOOK: &str = "NETQOS_TEST_HOOK";
/// Name, kind and addresses of the pods.
const PODS: &str = "NETQOS_TEST_PODS";
/// More than any of them does.
const ENOUGH: usize = 10_000;

fn main() {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    if !variable(SCENARIO).is_empty() {
        let hook = match variable(HOOK).as_str() {
            "tcx" => HookChoice::Tcx,
            _ => HookChoice::Clsact,
        };
        put_in_force(hook, &variable(SCENARIO), &variable(PODS));
        return;
    }
    if std::env::args().any(|argument| argument == "--list") {
        return;
    }
    for (hook, from, to, step) in [
        ("clsact", "old", "new", 1),
        ("tcx", "old", "new", 9),
        ("clsact", "none", "new", 5),
        ("clsact", "new", "none", 2),
        ("tcx", "new", "none", 9),
        ("clsact", "unloaded", "old", 13),
    ] {
        let test = move || killed_at_every(step, hook, from, to);
        std::thread::spawn(test).join().unwrap();
    }
}

/// What an agent does when it starts.
fn put_in_force(hook: HookChoice, scenario: &str, pods: &str) {
    let mut datapath = RuleDatapath::open(Paths::from_variables(|_| None), hook).unwrap();
    let outcome = datapath.sync(&plan(scenario, pods));
    assert_eq!(outcome.problems, []);
    datapath.tidy().unwrap();
}

/// The rules of a scenario, for all these pods.
fn plan(scenario: &str, pods: &str) -> NodePlan {
    let mut index = Index::for_node("node1");
    for pod in pods.split(';') {
        for change in objects(pod) {
            index.apply(change);
        }
    }
    let metered = |dscp, megabits| Rule {
        bandwidth: limiting(megabits).bandwidth,
        ..marking(dscp)
    };
    let policies = match scenario {
        "old" => vec![policy("p", 1, "player", vec![metered(10, 50)])],
        // Another rate, more rules, a rule to a peer, and a pod that had none.
        "new" => {
            let to_port = Rule {
                ports: vec![udp_port(1)],
                ..metered(12, 10)
            };
            let to_b = Rule {
                to: vec![to_pod("b")],
                ..metered(20, 100)
            };
            vec![
                policy("p", 1, "player", vec![to_b, to_port]),
                policy("q", 1, "gateway", vec![marking(30)]),
            ]
        }
        _ => vec![],
    };
    for policy in policies {
        index.apply(Change::Policy(policy));
    }
    index.take_delta();
    index.plan().clone()
}

fn objects(pod: &str) -> [Change; 2] {
    let words: Vec<&str> = pod.split(',').collect();
    let [name, kind, address, address6] = words[..] else {
        panic!("{pod}");
    };
    let addresses: BTreeSet<IpAddr> = [address, address6]
        .map(|address| address.parse().unwrap())
        .into();
    let labels: Labels = [("name", name), ("kind", kind)]
        .map(|(key, value)| (key.into(), value.into()))
        .into();
    let id = PodId {
        name: ObjectName::new("games", name),
        uid: format!("uid-{name}").into(),
    };
    let interface = Interface {
        container: name.to_owned(),
        network: "net".to_owned(),
        name: "eth0".to_owned(),
        netns: Path::new("/run/netns").join(name),
    };
    [
        Change::Pod(PodObject {
            id: id.clone(),
            labels,
            node: Some("node1".into()),
            host_network: false,
            finished: false,
            limits: Limits::default(),
            addresses: vec![PodAddresses {
                network: NetworkName::Default,
                interface: None,
                addresses: addresses.clone(),
            }],
        }),
        Change::Attachments {
            pod: id.name,
            uid: Some(id.uid),
            interfaces: vec![LocalInterface {
                network: NetworkName::Default,
                name: "eth0".into(),
                addresses,
                attach: Attach::HostVeth(interface),
            }],
        },
    ]
}

/// All that rules leave on a node, in lines; what numbers the kernel chose is not in them.
fn state(node: &Node, pods: &[Pod]) -> String {
    let mut text = String::new();
    let mut socket = Socket::open().unwrap();
    let links = socket.links().unwrap();
    let name_of = |index: u32| {
        let link = links.iter().find(|link| link.index == index);
        link.map(|link| link.name.clone())
    };
    for link in &links {
        writeln!(text, "link {} {:?}", link.name, link.alias).unwrap();
        let is_ours = link.alias.is_some() || pods.iter().any(|pod| pod.host_link() == link.name);
        if is_ours {
            let control = node.traffic_control(&link.name).unwrap();
            // The id of a program, and the handle of a queue that the kernel made.
            let mut words = control.split_whitespace().collect::<Vec<_>>();
            while let Some(at) = words.iter().position(|word| *word == "id") {
                words.drain(at..at + 2);
            }
            writeln!(text, "{}", words.join(" ")).unwrap();
        }
    }
    for folder in ["/run/netqos/rules", "/sys/fs/bpf"] {
        for file in node.files(folder) {
            writeln!(text, "{file}").unwrap();
        }
    }
    let bpffs = Path::new("/sys/fs/bpf");
    let Some(mut rules) = Rules::open(bpffs).unwrap() else {
        return text;
    };
    let mut tables = Vec::new();
    for (number, endpoint) in rules.endpoints.all().unwrap() {
        tables.push(format!("endpoint {number} {endpoint:?}"));
    }
    for (key, mut rule) in rules.rules_of.all().unwrap() {
        let queue = name_of(std::mem::take(&mut rule.queue));
        tables.push(format!("rule {key:?} {rule:?} {queue:?}"));
    }
    for entry in rules.chains.all().unwrap() {
        tables.push(format!("chain {entry:?}"));
    }
    for entry in rules.classes.all().unwrap() {
        tables.push(format!("class {entry:?}"));
    }
    for entry in rules.ports.all().unwrap() {
        tables.push(format!("port {entry:?}"));
    }
    for entry in rules.blocks4.all().unwrap() {
        tables.push(format!("block {entry:?}"));
    }
    for (limiter, _) in rules.crowds.all().unwrap() {
        tables.push(format!("crowd {limiter}"));
    }
    for network in rules.networks.networks().unwrap() {
        for peer in rules.networks.all(network).unwrap() {
            tables.push(format!("peer {network} {peer:?}"));
        }
    }
    for (id, limiter) in Pins::open(bpffs)
        .unwrap()
        .unwrap()
        .limiters()
        .all()
        .unwrap()
    {
        tables.push(format!("limiter {id} {:?}", limiter.settings));
    }
    tables.sort();
    text + &tables.join("\n")
}

/// Some packets from `a` to `b`, and the marks with which they arrive.
struct Traffic {
    sender: UdpSocket,
    to: String,
    wire: Wire,
    sent: u32,
}

impl Traffic {
    fn marks(&mut self, what: &str) -> BTreeSet<u8> {
        let mut seen = BTreeSet::new();
        for _ in 0..5 {
            self.sent += 1;
            let payload = format!("packet number {:6}", self.sent);
            self.sender.send_to(payload.as_bytes(), &self.to).unwrap();
            let frame = self.wire.receive(payload.as_bytes());
            let frame = frame.unwrap_or_else(|| panic!("{what}: {payload} was dropped"));
            seen.insert(frame[15] >> 2);
        }
        seen
    }
}

/// Kills a process that changes what is in force at every `step`th moment.
fn killed_at_every(step: usize, hook: &str, from: &str, to: &str) {
    let Some(node) = Node::new().unwrap() else {
        return;
    };
    let pods = ["a", "b", "c"].map(|name| node.pod(name).unwrap());
    let facts = pods.iter().map(|pod| {
        let kind = if pod.name() == "b" {
            "gateway"
        } else {
            "player"
        };
        format!("{},{kind},{},{}", pod.name(), pod.address(), pod.address6())
    });
    let facts = facts.collect::<Vec<_>>().join(";");
    let choice = match hook {
        "tcx" => HookChoice::Tcx,
        _ => HookChoice::Clsact,
    };
    let call = |scenario: &str| {
        Call::bare(std::env::current_exe().unwrap(), "")
            .variable(SCENARIO, scenario)
            .variable(HOOK, hook)
            .variable(PODS, &facts)
    };
    let begin = || match from {
        "unloaded" => {
            remove_all(&Paths::from_variables(|_| None)).unwrap();
            Pins::remove_all("/sys/fs/bpf".as_ref()).unwrap();
        }
        _ => put_in_force(choice, from, &facts),
    };
    let mut traffic = Traffic {
        sender: pods[0]
            .inside(|| UdpSocket::bind("0.0.0.0:0").unwrap())
            .unwrap(),
        to: format!("{}:9999", pods[1].address()),
        wire: pods[1].inside(|| Wire::open("eth0")).unwrap(),
        sent: 0,
    };
    let mark_of = |scenario: &str| match scenario {
        "old" => 10,
        "new" => 20,
        _ => 0,
    };
    begin();
    assert_eq!(traffic.marks("before"), [mark_of(from)].into());
    let outcome = call(to).run().unwrap();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let whole = state(&node, &pods);
    assert_eq!(traffic.marks("undisturbed"), [mark_of(to)].into());

    let (mut moments, mut met) = (0, BTreeSet::new());
    for nth in (0..ENOUGH).step_by(step) {
        begin();
        let was_killed = call(to).killed_at_change(nth).unwrap();
        let what = format!("{hook}, {from} to {to}, killed at change {nth}");
        let marks = traffic.marks(&what);
        let right = [mark_of(from), mark_of(to)];
        assert!(
            marks.iter().all(|mark| right.contains(mark)),
            "{what}: {marks:?}"
        );
        met.extend(marks);
        put_in_force(choice, to, &facts);
        let now = state(&node, &pods);
        if now != whole {
            let only_in = |one: &str, other: &str| -> Vec<String> {
                let lines = one
                    .lines()
                    .filter(|line| !other.lines().any(|l| l == *line));
                lines.map(str::to_owned).collect()
            };
            let (gone, new) = (only_in(&whole, &now), only_in(&now, &whole));
            panic!("{what}: not as undisturbed\ngone: {gone:#?}\nnew: {new:#?}");
        }
        assert_eq!(traffic.marks(&what), [mark_of(to)].into(), "{what}");
        if !was_killed {
            break;
        }
        moments += 1;
    }
    println!("{hook}, {from} to {to}: {moments} moments, marks met before the repair: {met:?}");
    assert!(
        moments * step > 20,
        "{moments}: the process was not watched"
    );
    assert_eq!(
        met,
        [mark_of(from), mark_of(to)].into(),
        "killed too early or too late"
    );
}
