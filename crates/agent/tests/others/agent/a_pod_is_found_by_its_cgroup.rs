use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use netqos_testkit::Pod;
use serde_json::{Value, json};

use super::cgroup::{Driver, Sandbox, Tree};
use super::stage::{self, Agent, Flow};

const UID: &str = "36cee2dc-0bd6-4f1f-a5c2-6f4c86bd4f4a";
const OTHER: &str = "b1d9b5de-52e7-4e0c-9b6b-8d2f3c1f1f10";

#[test]
fn of_version_2_and_named_by_systemd() {
    let Some(tree) = Tree::of_v2() else { return };
    comes_and_goes(&tree, Driver::Systemd, First::Object);
}

#[test]
fn of_version_1_and_named_by_the_kubelet() {
    let Some(tree) = Tree::of_v1() else { return };
    comes_and_goes(&tree, Driver::Cgroupfs, First::Processes);
}

/// What of a pod goes first.
enum First {
    Object,
    Processes,
}

/// With no record, and nothing remembered by a runtime.
fn comes_and_goes(tree: &Tree, driver: Driver, first: First) {
    let Some(node) = stage::node() else { return };
    let (a, b) = (node.pod("a").unwrap(), node.pod("b").unwrap());
    stage::put("p.yaml", &stage::policy("p", "a", "[{dscp: 46}]"));
    let agent = start(tree);
    sleep(Duration::from_millis(1500));
    let pristine = node.state(&[&a]).unwrap();
    let flow = Flow::begin(&a, &b, Duration::from_millis(1));
    put(&a, UID, json!({"kubernetes.io/egress-bandwidth": "80M"}));
    assert!(stage::eventually(|| reasons() == ["EndpointUnreachable"]));
    flow.wait_for(0);
    let mut sandbox = tree.sandbox(UID, driver);
    // A container that its runtime is not done with yet.
    sleep(Duration::from_millis(50));
    let began = Instant::now();
    sandbox.run_in(&a);
    let took = flow.wait_for(46).at.saturating_duration_since(began);
    println!("after {took:?}");
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert!(stage::eventually(|| rate("a") == Some(80_000_000)));
    assert_eq!(reasons(), [""; 0]);
    put(&a, UID, json!({"kubernetes.io/egress-bandwidth": "40M"}));
    assert!(stage::eventually(|| rate("a") == Some(40_000_000)));

    // The agent ends and begins: it is the same pod.
    sleep(Duration::from_millis(1500));
    let in_force = node.state(&[&a]).unwrap();
    agent.kill();
    let agent = start(tree);
    let reconciled = stage::status().reconciled;
    assert_eq!((reconciled.changes, reconciled.limits), (0, 0));
    sleep(Duration::from_millis(1500));
    let again = node.state(&[&a]).unwrap();
    again.assert_is(&in_force, "the agent ended and began");

    // And everything goes with it.
    let object = "/run/objects/a.json";
    if let First::Object = first {
        fs::remove_file(object).unwrap();
        flow.wait_for(0);
        assert!(stage::eventually(|| stage::status().pods.is_empty()));
        sleep(Duration::from_millis(1500));
        let after = node.state(&[&a]).unwrap();
        after.assert_is(&pristine, "the object is gone");
        sandbox.remove();
    } else {
        sandbox.remove();
        assert!(stage::eventually(|| reasons() == ["EndpointUnreachable"]));
        fs::remove_file(object).unwrap();
    }
    drop(flow.end());
    assert!(stage::eventually(|| stage::status().pods.is_empty()));
    a.remove(&node).unwrap();
    sleep(Duration::from_millis(1500));
    assert_eq!(reasons(), [""; 0]);
    let files = [
        "/run/netqos/attachments",
        "/run/netqos/agent-limits",
        "/run/netqos/rules",
    ];
    for folder in files {
        assert_eq!(node.files(folder), [""; 0], "{folder}");
    }
    drop(agent);
}

/// The process that names the namespace ends, and another one is in it still.
#[test]
fn and_stays_found_by_another_of_its_processes() {
    let Some(tree) = Tree::of_v2() else { return };
    let Some(node) = stage::node() else { return };
    let (a, b) = (node.pod("a").unwrap(), node.pod("b").unwrap());
    stage::put("p.yaml", &stage::policy("p", "a", "[{dscp: 46}]"));
    put(&a, UID, json!({"kubernetes.io/egress-bandwidth": "80M"}));
    let (mut sandbox, mut other) = two_containers(&tree, &a);
    let _agent = start(&tree);
    let flow = Flow::begin(&a, &b, Duration::from_millis(1));
    flow.wait_for(46);
    let tc = node.traffic_control(a.host_link()).unwrap();
    let first = netns();
    sandbox.end_first();
    // That container's folder goes, too, which is heard of.
    sandbox.remove_container();
    assert!(stage::eventually(|| netns() != first), "{first}");
    assert_eq!(rate("a"), Some(80_000_000));
    assert_eq!(reasons(), [""; 0]);
    assert_eq!(node.traffic_control(a.host_link()).unwrap(), tc);
    let seen = flow.end_after(100);
    assert!(seen.iter().all(|seen| seen.dscp == 46), "marks went");
    stage::assert_no_loss(&seen);
    other.end_first();
}

/// What a runtime remembers of a pod counts as soon as it is there.
#[test]
fn until_a_runtimes_cache_tells_of_it() {
    let Some(tree) = Tree::of_v2() else { return };
    let Some(node) = stage::node() else { return };
    let (a, b) = (node.pod("a").unwrap(), node.pod("b").unwrap());
    stage::put("p.yaml", &stage::policy("p", "a", "[{dscp: 46}]"));
    put(&a, UID, json!({"kubernetes.io/egress-bandwidth": "80M"}));
    let mut sandbox = tree.sandbox(UID, Driver::Cgroupfs);
    sandbox.run_in(&a);
    let _agent = start(&tree);
    let flow = Flow::begin(&a, &b, Duration::from_millis(1));
    flow.wait_for(46);
    assert!(records()[0].starts_with("pod-network:"), "{:?}", records());
    stage::remember_as(&a, UID, json!({}));
    assert!(
        stage::eventually(|| records() == ["net:a:eth0.json"]),
        "{:?}",
        records()
    );
    assert!(stage::eventually(|| rate("a") == Some(80_000_000)));
    assert!(stage::eventually(|| reasons().is_empty()));
    flow.wait_for(46);
    // It stays so when the cache goes, but for the name.
    fs::remove_file(stage::remembered(&a)).unwrap();
    assert!(stage::eventually(|| {
        let records = records();
        records.len() == 1 && records[0].starts_with("pod-network:")
    }));
    flow.wait_for(46);
    assert!(stage::eventually(|| rate("a") == Some(80_000_000)));
    assert!(stage::eventually(|| reasons().is_empty()));
    drop(flow.end());
}

/// What a plugin has made is known by the name that it has given it, where only its record says so.
#[test]
fn by_the_name_that_a_plugin_has_written_down() {
    let Some(tree) = Tree::of_v2() else { return };
    let Some(node) = stage::node() else { return };
    let (a, b) = (node.pod("a").unwrap(), node.pod("b").unwrap());
    stage::put("p.yaml", &stage::policy("p", "a", "[{dscp: 46}]"));
    put(&a, UID, json!({"kubernetes.io/egress-bandwidth": "80M"}));
    stage::remember_as(&a, UID, json!({}));
    start(&tree).kill();
    assert_eq!(records(), ["net:a:eth0.json"]);
    // No agent has made that, as far as the next one knows.
    fs::remove_dir_all("/run/netqos/agent-limits").unwrap();
    fs::remove_file(stage::remembered(&a)).unwrap();
    let mut sandbox = tree.sandbox(UID, Driver::Systemd);
    sandbox.run_in(&a);
    let _agent = start(&tree);
    assert_eq!(rate("a"), Some(80_000_000));
    assert_eq!(stage::status().reconciled.limits, 0);
    assert_eq!(records(), ["net:a:eth0.json"]);
    let flow = Flow::begin(&a, &b, Duration::from_millis(1));
    flow.wait_for(46);
    drop(flow.end());
    assert_eq!(reasons(), [""; 0]);
}

/// A pod of the host's network has no interface of its own, and that of the node is nobody's.
#[test]
fn and_never_in_the_namespace_of_the_node() {
    let Some(tree) = Tree::of_v2() else { return };
    let Some(node) = stage::node() else { return };
    let a = node.pod("a").unwrap();
    // As it would be called where it were a pod's.
    node.run(
        "ip",
        &[
            "link", "add", "eth0", "type", "veth", "peer", "name", "eth0-far",
        ],
    )
    .unwrap();
    node.run("ip", &["link", "set", "eth0", "up"]).unwrap();
    stage::put("p.yaml", &stage::policy("p", "a", "[{dscp: 46}]"));
    let _agent = start(&tree);
    sleep(Duration::from_millis(1500));
    let before = node.state(&[]).unwrap();
    let mut sandbox = tree.sandbox(OTHER, Driver::Systemd);
    sandbox.run_on_host();
    put(&a, OTHER, json!({"kubernetes.io/egress-bandwidth": "1M"}));
    assert!(stage::eventually(|| reasons() == ["EndpointUnreachable"]));
    // Until nothing is tried any more.
    sleep(Duration::from_secs(5));
    assert_eq!(reasons(), ["EndpointUnreachable"]);
    node.state(&[])
        .unwrap()
        .assert_is(&before, "a process of the node's");
}

/// It is what one says who wants no more than what runtimes remember.
#[test]
fn unless_it_is_told_not_to_look() {
    let Some(tree) = Tree::of_v2() else { return };
    let Some(node) = stage::node() else { return };
    let a = node.pod("a").unwrap();
    stage::put("p.yaml", &stage::policy("p", "a", "[{dscp: 46}]"));
    put(&a, UID, json!({}));
    let mut sandbox = tree.sandbox(UID, Driver::Systemd);
    sandbox.run_in(&a);
    let agent = Agent::start_with(&["--cgroup-root", "off"]);
    assert_eq!(reasons(), ["EndpointUnreachable"]);
    drop(agent);
    let _agent = start(&tree);
    assert_eq!(reasons(), [""; 0]);
}

fn start(tree: &Tree) -> Agent {
    Agent::start_with(&["--cgroup-root", tree.path()])
}

/// Puts a pod's object with a uid into the folder.
fn put(pod: &Pod, uid: &str, annotations: Value) {
    let mut object: Value = serde_json::from_str(&stage::manifest(pod, annotations)).unwrap();
    object["metadata"]["uid"] = uid.into();
    stage::put("a.json", &object.to_string());
}

/// A pod with a process in each of two containers.
fn two_containers(tree: &Tree, pod: &Pod) -> (Sandbox, Sandbox) {
    let mut first = tree.sandbox(UID, Driver::Cgroupfs);
    first.run_in(pod);
    let mut second = first.another_container();
    second.run_in(pod);
    (first, second)
}

fn rate(pod: &str) -> Option<u64> {
    let limits = stage::pod_status(pod)?.limits;
    Some(limits.first().filter(|limit| limit.in_force)?.rate)
}

fn reasons() -> Vec<String> {
    let problems = stage::status().problems.into_iter();
    problems.map(|problem| problem.reason).collect()
}

/// The files of the records of limits.
fn records() -> Vec<String> {
    let files = fs::read_dir("/run/netqos/attachments").unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(".json")).collect()
}

/// The path by which the pod's namespace is known.
fn netns() -> String {
    let state: Value = serde_json::from_str(&stage::ask("/debug/state")).unwrap();
    let text = state["desired"].to_string();
    let (_, after) = text.split_once("\"netns\":\"").unwrap();
    after.split('"').next().unwrap().to_owned()
}
