//! Calico at work on the node: it limits pods by their annotations, and deletes other TBFs at the hosts' ends of their
//! interfaces.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use netqos_api::calico_ifb_name;
use netqos_testkit::{
    Felix, ForeignHook, ForeignProgram, Node, Pod, TcAttachType, Verdict, foreign_map, has_tcx,
};
use serde_json::json;

use super::stage::{self, Agent, Flow};

const PROFILE: &str = "apiVersion: netqos.io/v1alpha1
kind: BandwidthProfile
metadata: {name: downloads, namespace: games}
spec: {podSelector: {matchLabels: {app: a}}, ingress: {rate: 10M}}
";
/// What Calico makes of the annotations of `b`.
const OF_B: Felix = Felix {
    ingress: Some("30mbit"),
    egress: Some("20mbit"),
};
const OF_A: Felix = Felix {
    ingress: None,
    egress: None,
};

/// Pods `a`, with a profile, and `b`, with annotations and a rule.
fn put(a: &Pod, b: &Pod) {
    let annotations = json!({
        "kubernetes.io/ingress-bandwidth": "30M", "kubernetes.io/egress-bandwidth": "20M"
    });
    stage::put("a.json", &stage::manifest(a, json!({})));
    stage::put("b.json", &stage::manifest(b, annotations));
    stage::put("profile.yaml", PROFILE);
    stage::put("mark.yaml", &stage::policy("mark", "b", "[{dscp: 46}]"));
}

/// The links that hold the limits of a pod.
fn links(pod: &Pod) -> Vec<String> {
    let limits = stage::pod_status(pod.name()).map_or_else(Vec::new, |it| it.limits);
    let in_force = limits.into_iter().filter(|limit| limit.in_force);
    in_force.map(|limit| limit.link).collect()
}

fn reasons() -> Vec<String> {
    let problems = stage::status().problems.into_iter();
    problems.map(|problem| problem.reason).collect()
}

fn has_tbf(node: &Node, pod: &Pod) -> bool {
    let shown = node.run("tc", &["qdisc", "show", "dev", pod.host_link()]);
    shown.unwrap().contains("qdisc tbf")
}

#[test]
fn annotations_are_left_to_it_and_profiles_hold_inside_of_pods() {
    if !has_tcx() {
        return;
    }
    let Some(node) = stage::node() else { return };
    let (a, b) = stage::pods(&node);
    put(&a, &b);
    // Of a link that is gone.
    let orphan = calico_ifb_name("gone");
    let add = ["link", "add", &orphan, "type", "ifb"];
    node.run("ip", &add).unwrap();
    let agent = Agent::start();
    assert!(stage::eventually(|| links(&a) == [a.host_link()]));
    assert!(stage::eventually(|| links(&b) == [b.host_link(), "eth0"]));
    assert_eq!(reasons(), [""; 0]);
    let flow = Flow::begin(&b, &a, Duration::from_millis(5));
    flow.wait_for(46);

    OF_B.update(&node, &b).unwrap();
    let is_left = || reasons() == ["AnnotationsElsewhere"] && links(&b).is_empty();
    assert!(stage::eventually(is_left), "{}", stage::log());
    let is_in_pod = || matches!(&links(&a)[..], [link] if link.starts_with("nqi"));
    assert!(stage::eventually(is_in_pod), "{}", stage::log());
    assert!(!has_tbf(&node, &a));

    // Its updates change nothing of that.
    let restored = stage::status().reconciled.limits_restored;
    for _ in 0..5 {
        OF_A.update(&node, &a).unwrap();
        OF_B.update(&node, &b).unwrap();
        sleep(Duration::from_secs(1));
    }
    assert!(has_tbf(&node, &b));
    assert!(is_in_pod() && is_left(), "{}", stage::log());
    assert_eq!(stage::status().reconciled.limits_restored, restored);
    assert_eq!(stage::marks(&flow.end()), [46]);

    // The next agent knows before it programs a limit.
    drop(agent);
    let _agent = Agent::start();
    assert!(stage::eventually(is_in_pod), "{}", stage::log());
    assert!(has_tbf(&node, &b) && !has_tbf(&node, &a));
}

/// Its eBPF data plane limits pods where its programs are on tcx.
#[test]
fn annotations_are_left_to_its_ebpf_on_tcx_alone() {
    if !has_tcx() {
        return;
    }
    let Some(node) = stage::node() else { return };
    let (a, b) = stage::pods(&node);
    put(&a, &b);
    let pins = Path::new("/sys/fs/bpf/tc/globals");
    fs::create_dir_all(pins).unwrap();
    foreign_map(pins.join("cali_state")).unwrap();
    let ifb = calico_ifb_name("cali0");
    for link in [
        ["link", "add", &ifb, "type", "ifb"],
        ["link", "add", "cali0", "type", "veth"],
    ] {
        node.run("ip", &link).unwrap();
    }
    let _agent = Agent::start();
    assert!(stage::eventually(|| links(&b) == [b.host_link(), "eth0"]));
    assert_eq!(reasons(), [""; 0]);
    let (at, next) = (TcAttachType::Ingress, Verdict::Next);
    let _program = ForeignProgram::attach("cali0", at, ForeignHook::TcxFirst, next).unwrap();
    let is_left = || reasons() == ["AnnotationsElsewhere"] && links(&b).is_empty();
    assert!(stage::eventually(is_left), "{}", stage::log());
}

/// As on kernels before 6.6.
#[test]
fn rules_on_clsact_wait_until_it_does_not_limit_the_pod() {
    let Some(node) = stage::node() else { return };
    let (a, b) = stage::pods(&node);
    put(&a, &b);
    let agent = Agent::start_with(&["--hook", "clsact"]);
    let flow = Flow::begin(&b, &a, Duration::from_millis(5));
    flow.wait_for(46);
    agent.kill();
    // Clsact is in its way, also when the next agent starts.
    OF_B.update(&node, &b).unwrap_err();
    let _agent = Agent::start_with(&["--hook", "clsact"]);
    assert!(stage::eventually(|| OF_B.update(&node, &b).is_ok()));
    let is_told = || reasons().iter().any(|reason| reason == "HookReplaced");
    assert!(stage::eventually(is_told), "{}", stage::log());
    flow.wait_for(0);
    OF_B.end(&node, &b).unwrap();
    flow.wait_for(46);
    assert!(stage::eventually(|| !is_told()));
    drop(flow.end());
}
