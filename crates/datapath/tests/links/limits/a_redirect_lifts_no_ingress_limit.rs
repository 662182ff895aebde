//! Programs of others that hand packets to the pod's end of its interface, past the queue at the host's end.

use std::time::{Duration, Instant};

use netqos_api::HookChoice;
use netqos_core::{BitRate, Direction};
use netqos_datapath::{Applied, BypassDetector, Features, Paths, QueueName};
use netqos_testkit::{Baseline, ForeignHook, ForeignProgram, Node, Pod, has_tcx};
use netqos_traffic::{Flow, Server, TcpTest};

use super::limits_take_effect::assert_limited_in;
use super::{Wanted, both, datapath, hooks, lift, server};

const HOOKS: [ForeignHook; 2] = [ForeignHook::Clsact(1), ForeignHook::TcxFirst];

/// The hooks of the kernel for a program that redirects.
fn foreign_hooks() -> impl Iterator<Item = ForeignHook> {
    let hooks = HOOKS.into_iter();
    hooks.filter(|hook| *hook != ForeignHook::TcxFirst || has_tcx())
}

/// Gives the limit its queue in the pod.
fn hold_in_pod(wanted: &Wanted) -> Applied {
    let mut datapath = datapath();
    datapath.note_ingress_in_pod("a test").unwrap();
    let applied = datapath.apply_again(&wanted.attachment, None).unwrap();
    applied.unwrap()
}

fn shown_in(node: &Node, pod: &Pod, command: &str) -> String {
    let mut words = command.split(' ');
    let program = words.next().unwrap();
    pod.run(node, program, &words.collect::<Vec<_>>()).unwrap()
}

/// Everything in the pod that a limit may change.
fn inside(node: &Node, pod: &Pod) -> String {
    let commands = ["tc qdisc show", "ip -o link show", "nft list ruleset"];
    let shown = commands.map(|command| shown_in(node, pod, command));
    // A deleted queue has taken the link's own along.
    shown.concat().replace("qdisc pfifo_fast", "qdisc noqueue")
}

/// The rate at which the pod downloads.
fn download(pod: &Pod, server: &Server) -> BitRate {
    let test = TcpTest {
        flow: Flow::Download,
        omit: Duration::from_millis(100),
        duration: Duration::from_millis(300),
        ..TcpTest::new(server.local_addr())
    };
    let report = pod.inside(|| test.run(|_| ())).unwrap().unwrap();
    report.goodput.rate
}

#[test]
fn queue_in_the_pod_holds_what_bypasses_the_one_on_the_host() {
    // Ours on clsact with the other on tcx, and the other way round.
    let others: Vec<ForeignHook> = foreign_hooks().collect();
    for (hook, at) in hooks().zip(others.into_iter().rev()) {
        let run = move || held_in_the_pod(hook, at);
        std::thread::spawn(run).join().unwrap();
    }
}

fn held_in_the_pod(hook: HookChoice, at: ForeignHook) {
    let Some(node) = Node::new().unwrap() else {
        return;
    };
    let (pod, other) = (node.pod("limited").unwrap(), node.pod("free").unwrap());
    let baseline = Baseline::new(&node).unwrap();
    let servers = [other.address(), other.address6()].map(|address| server(&other, &address));
    let (before, host_before) = (inside(&node, &pod), node.inventory().unwrap());
    let wanted = Wanted::new(&pod, both(20), hook).running();
    datapath().apply(&wanted.request()).unwrap();
    let foreign = ForeignProgram::redirect_to(&pod, other.host_link(), at).unwrap();
    for server in &servers {
        let rate = download(&pod, server);
        assert!(rate.bits_per_second() > 60_000_000, "{rate} with one queue");
    }
    assert_eq!(hold_in_pod(&wanted).no_queue_in_pod_because, None);
    datapath().check(&wanted.request()).unwrap();
    for server in &servers {
        let what = format!("{hook:?}, {at:?}");
        assert_limited_in(Direction::Ingress, &pod, server, &baseline, &what);
    }
    assert!(foreign.seen().unwrap() > 0);
    drop(foreign);
    let what = "through both queues";
    assert_limited_in(Direction::Ingress, &pod, &servers[0], &baseline, what);

    // It changes and goes with the other one.
    let slower = Wanted::new(&pod, both(10), hook).running();
    datapath().apply(&slower.request()).unwrap();
    datapath().check(&slower.request()).unwrap();
    let queues = shown_in(&node, &pod, "tc qdisc show");
    assert_eq!(queues.matches("rate 10Mbit").count(), 2, "{queues}");
    lift(&slower);
    std::fs::remove_file(marker()).unwrap();
    assert_eq!(inside(&node, &pod), before);
    assert_eq!(node.inventory().unwrap(), host_before);
}

fn marker() -> std::path::PathBuf {
    Paths::from_variables(|_| None).ingress_in_pod()
}

/// At ADD, before the pod sends anything. A pod whose interface has no end on the host has one queue, in the pod.
#[test]
fn new_limits_have_a_queue_in_the_pod_where_one_was_needed() {
    let Some(node) = Node::new().unwrap() else {
        return;
    };
    node.parent_link("parent").unwrap();
    let veth = node.pod("veth").unwrap();
    let macvlan = node.macvlan_pod("macvlan", "parent").unwrap();
    let queues = |pod: &Pod| {
        let wanted = Wanted::new(pod, both(20), HookChoice::Auto);
        datapath().apply(&wanted.request()).unwrap();
        datapath().check(&wanted.request()).unwrap();
        let record = datapath().records().read(&wanted.attachment).unwrap();
        let names = record.unwrap().queues;
        let names: Vec<QueueName> = names.iter().map(|queue| queue.name()).collect();
        lift(&wanted);
        names
    };
    let one = [QueueName::Ingress, QueueName::Egress];
    assert_eq!(queues(&veth), one);
    datapath().note_ingress_in_pod("a test").unwrap();
    assert_eq!(queues(&veth), QueueName::ALL);
    assert_eq!(queues(&macvlan), one);
}

/// The detector sees it where the kernel counts such packets, and nothing where it does not.
#[test]
fn bypass_is_found_by_the_counters_of_both_ends() {
    let Some(node) = Node::new().unwrap() else {
        return;
    };
    let (pod, other) = (node.pod("limited").unwrap(), node.pod("free").unwrap());
    let server = server(&other, &other.address());
    let wanted = Wanted::new(&pod, both(20), HookChoice::Auto);
    let mut datapath = datapath();
    let ends = datapath.apply(&wanted.request()).unwrap().ends.unwrap();
    let limit = BitRate::from_bits_per_second(20_000_000);
    let mut found = || {
        let mut detector = BypassDetector::default();
        let mut observe = || {
            let counts = datapath.end_counts(ends.host.unwrap(), &detector);
            let counts = counts.unwrap().unwrap();
            detector.observe(Instant::now(), counts, limit)
        };
        let none = observe();
        download(&pod, &server);
        let once = observe();
        download(&pod, &server);
        assert_eq!((none, once), (None, None));
        observe()
    };
    assert_eq!(found(), None);
    let features = Features::probe(&Paths::from_variables(|_| None)).unwrap();
    let is_counted = features.with_redirect_counter().counts_redirected();
    for at in foreign_hooks() {
        let _foreign = ForeignProgram::redirect_to(&pod, other.host_link(), at).unwrap();
        let rate = found();
        eprintln!("{at:?}: {rate:?}");
        assert_eq!(rate.is_some(), is_counted, "{at:?}");
        assert!(rate.is_none_or(|rate| rate > limit), "{at:?}: {rate:?}");
    }
    assert_eq!(found(), None);
}

/// A pod with `CAP_NET_ADMIN` keeps queues in its namespace from being made.
#[test]
fn what_a_pod_does_inside_lifts_nothing_on_the_host() {
    let Some(node) = Node::new().unwrap() else {
        return;
    };
    let pod = node.pod("a").unwrap();
    let wanted = Wanted::new(&pod, both(10), HookChoice::Auto).running();
    datapath().apply(&wanted.request()).unwrap();
    let is_on_host = || {
        let shown = node.run("tc", &["qdisc", "show", "dev", pod.host_link()]);
        shown.unwrap().contains("rate 10Mbit")
    };
    // Both names of the ifb are another link's.
    let ifb = hold_in_pod(&wanted).queues[1].link.clone();
    shown_in(&node, &pod, &format!("ip link delete {ifb}"));
    let second = netqos_api::ifb_name("net", "aeth0").replace("bwp", "nqi");
    for name in [ifb.as_str(), second.as_str()] {
        shown_in(&node, &pod, &format!("ip link add {name} type veth"));
    }
    let applied = datapath().apply(&wanted.request()).unwrap();
    let why = applied.no_queue_in_pod_because.unwrap();
    assert!(why.contains(&second), "{why}");
    assert!(is_on_host());
    datapath().check(&wanted.request()).unwrap();

    // The egress queue cannot be made either.
    for command in [
        "tc qdisc delete dev eth0 root",
        "tc qdisc add dev eth0 root pfifo",
    ] {
        shown_in(&node, &pod, command);
    }
    datapath().apply(&wanted.request()).unwrap_err();
    assert!(is_on_host());

    // It is back as soon as the pod lets it.
    for name in [ifb.as_str(), second.as_str()] {
        shown_in(&node, &pod, &format!("ip link delete {name}"));
    }
    shown_in(&node, &pod, "tc qdisc delete dev eth0 root");
    let applied = datapath().apply(&wanted.request()).unwrap();
    assert_eq!(
        (applied.queues.len(), applied.no_queue_in_pod_because),
        (3, None)
    );
    datapath().check(&wanted.request()).unwrap();
    lift(&wanted);
}
