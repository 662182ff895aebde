//! Ingress limits past which programs of others send packets.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use netqos_agent::LimitStatus;
use netqos_api::{EgressWay, HookChoice};
use netqos_core::{Attachment, BitRate, Limit, Limits};
use netqos_datapath::{
    AttachedPod, AttachedPods, Features, HostLinks, LimitDatapath, Paths, Request,
};
use netqos_testkit::{ForeignHook, ForeignProgram, Node, Pod, foreign_map, has_tcx};
use serde_json::json;

use super::stage::{self, Agent, Flow, download, serve};

/// A limit that is bypassed is found within.
const FOUND: Duration = Duration::from_secs(15);
const LIMIT: BitRate = BitRate::from_bits_per_second(10_000_000);
/// What a limit of 10 Mbit/s may let through.
const MOST: BitRate = BitRate::from_bits_per_second(10_500_000);

/// Pods `a` and `b`, of which `a` is limited, and an agent that has limited it.
fn limited(node: &Node) -> (Pod, Pod, Agent) {
    let (a, b) = stage::pods(node);
    put(&a);
    let agent = Agent::start();
    // Where the kernel lacks a counter it is not known to be in force.
    let is_held = || ingress(&a).is_some_and(|it| !it.link.is_empty());
    assert!(stage::eventually(is_held));
    (a, b, agent)
}

fn put(pod: &Pod) {
    let annotations = json!({"kubernetes.io/ingress-bandwidth": "10M"});
    let file = format!("{}.json", pod.name());
    stage::put(&file, &stage::manifest(pod, annotations));
}

fn ingress(pod: &Pod) -> Option<LimitStatus> {
    stage::pod_status(pod.name())?.limits.into_iter().next()
}

/// The queue is in the pod.
fn is_held_in_pod(pod: &Pod) -> bool {
    ingress(pod).is_some_and(|limit| limit.link.starts_with("nqi") && limit.in_force)
}

fn has_problem(reason: &str) -> bool {
    let problems = stage::status().problems;
    problems.iter().any(|problem| problem.reason == reason)
}

/// Returns true if the kernel counts packets that bypass a limit.
fn has_counter() -> bool {
    let features = Features::probe(&Paths::from_variables(|_| None)).unwrap();
    let features = features.with_redirect_counter();
    features.counts_redirected()
}

#[test]
fn bypassed_limit_is_found_and_gets_a_queue_in_the_pod() {
    let Some(node) = stage::node() else { return };
    if !has_counter() {
        eprintln!("skipped: this kernel does not count packets that bypass a limit");
        return;
    }
    let (a, b, _agent) = limited(&node);
    let server = serve(&b);
    let second = Duration::from_secs(1);
    assert!(download(&a, &server, second) < MOST);
    let _foreign = ForeignProgram::redirect_to(&a, b.host_link(), ForeignHook::Clsact(1)).unwrap();
    let began = Instant::now();
    let before = download(&a, &server, second);
    assert!(
        before.bits_per_second() > 100_000_000,
        "{before} past the queue"
    );
    while !is_held_in_pod(&a) {
        assert!(began.elapsed() < FOUND + second, "{}", stage::log());
        download(&a, &server, second);
    }
    eprintln!("{before} before; found after {:.1?}", began.elapsed());
    let after = download(&a, &server, 3 * second);
    assert!(after < MOST, "{after} through the queue in the pod");
    // The link is listed as soon as it is there, and the problem after that.
    assert!(stage::eventually(|| has_problem("IngressBypassed")));
    let metrics = stage::ask("/metrics");
    let metric = "netqos_pod_ingress_bypass_bytes_per_second{namespace=\"games\",pod=\"a\"";
    assert!(metrics.contains(metric), "{metrics}");

    // A queue that the pod has removed is restored.
    let ifb = ingress(&a).unwrap().link;
    a.run(&node, "ip", &["link", "delete", &ifb]).unwrap();
    let is_back = || a.run(&node, "ip", &["link", "show", &ifb]).is_ok();
    assert!(stage::eventually(is_back), "{}", stage::log());

    // Later limits do not wait to be found.
    let c = node.pod("c").unwrap();
    stage::remember(&c, json!({}));
    put(&c);
    assert!(stage::eventually(|| is_held_in_pod(&c)));
}

/// As with `agent.enterPods=false`. The limit is a plugin's, and the agent has no object of the pod.
#[test]
fn bypassed_limit_is_reported_where_the_agent_may_enter_no_pod() {
    let Some(node) = stage::node() else { return };
    if !has_counter() {
        eprintln!("skipped: this kernel does not count packets that bypass a limit");
        return;
    }
    let (a, b) = stage::pods(&node);
    let attachment = Attachment::try_new("net", "a", "eth0").unwrap();
    let limits = Limits {
        ingress: Some(Limit::of(LIMIT)),
        egress: None,
    };
    let paths = Paths::from_variables(|_| None);
    let mut datapath = LimitDatapath::open(paths.clone()).unwrap();
    let request = Request {
        attachment: &attachment,
        netns: &a.netns(),
        ends: None,
        host_links: HostLinks::Unknown,
        limits,
        egress: EgressWay::Pod,
        hook: HookChoice::Auto,
        is_running: false,
    };
    let ends = datapath.apply(&request).unwrap().ends;
    let attached = AttachedPod {
        attachment: attachment.clone(),
        netns: a.netns(),
        namespace: "games".to_owned(),
        name: "a".to_owned(),
        uid: None,
        ends,
        addresses: BTreeSet::new(),
        has_annotations: true,
    };
    AttachedPods::new(paths.pods()).write(&attached).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", "-sys_admin"]);
    command.arg(stage::executable());
    command.args(["--node", "node1", "--manifests", stage::MANIFESTS]);
    let agent = Agent::spawn_by(&mut command);
    agent.wait_until_ready();
    let server = serve(&b);
    download(&a, &server, Duration::from_secs(12));
    assert_eq!(stage::status().problems, [], "{}", stage::log());
    let _foreign = ForeignProgram::redirect_to(&a, b.host_link(), ForeignHook::Clsact(1)).unwrap();
    let is_told = || {
        download(&a, &server, Duration::from_secs(1));
        let problems = stage::status().problems;
        let mut bypassed = problems.iter().filter(|it| it.reason == "IngressBypassed");
        bypassed.any(|it| it.name == "games/a" && it.message.contains("nothing holds the limit"))
    };
    assert!(stage::eventually(is_told), "{}", stage::log());
    datapath.check(&request).unwrap();
}

/// A CNI that may redirect is known by its pins.
#[test]
fn unverified_limit_gets_a_queue_in_the_pod_beside_a_cni_that_redirects() {
    let Some(node) = stage::node() else { return };
    if has_counter() {
        eprintln!("skipped: this kernel counts packets that bypass a limit");
        return;
    }
    let (a, _b, _agent) = limited(&node);
    let is_told = || ingress(&a).is_some_and(|it| it.reason == "IngressNotVerified");
    assert!(stage::eventually(is_told));
    assert!(stage::eventually(|| has_problem("IngressNotVerified")));
    let pins = Path::new("/sys/fs/bpf/tc/globals");
    std::fs::create_dir_all(pins).unwrap();
    foreign_map(pins.join("cilium_lxc")).unwrap();
    assert!(stage::eventually(|| is_held_in_pod(&a)));
    assert!(stage::eventually(|| !has_problem("IngressNotVerified")));
    assert_eq!(ingress(&a).unwrap().reason, "");
}

/// Between pods of one node the programs at the sender decide: its rules are before one that redirects.
#[test]
fn rules_of_the_sender_come_before_a_redirect() {
    let Some(node) = stage::node() else { return };
    let (a, b) = stage::pods(&node);
    stage::put("mark.yaml", &stage::policy("mark", "b", "[{dscp: 46}]"));
    stage::put("b.json", &stage::manifest(&b, json!({})));
    let tcx = [
        ForeignHook::TcxFirst,
        ForeignHook::TcxLast,
        ForeignHook::Clsact(1),
    ];
    let tcx = tcx.into_iter().filter(|_| has_tcx());
    for at in tcx.chain([ForeignHook::Clsact(1000)]) {
        let _agent = Agent::start();
        let foreign = ForeignProgram::redirect_to(&a, b.host_link(), at).unwrap();
        let flow = Flow::begin(&b, &a, Duration::from_millis(5));
        flow.wait_for(46);
        let before = foreign.seen().unwrap();
        let is_redirected = || foreign.seen().unwrap() > before + 50;
        assert!(stage::eventually(is_redirected), "{at:?}");
        let last = flow.end().pop().unwrap();
        assert_eq!(last.dscp, 46, "{at:?}");
    }
    if !has_tcx() {
        // No filter of clsact gets before the first one.
        let _agent = Agent::start();
        let _foreign =
            ForeignProgram::redirect_to(&a, b.host_link(), ForeignHook::Clsact(1)).unwrap();
        assert!(stage::eventually(|| has_problem("HookContested")));
    }
}
