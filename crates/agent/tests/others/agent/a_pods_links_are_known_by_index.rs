//! A pod with `CAP_NET_ADMIN` gives its interface another name, and the name to another link, as KubeVirt's bridge binding
//! does.

use std::fs;

use netqos_testkit::{Node, Pod};
use serde_json::{Value, json};

use super::a_changed_annotation_takes_effect_live::bandwidth;
use super::stage::{self, Agent};

fn limit(pod: &Pod, megabits: u64) {
    let annotations = bandwidth(&format!("{megabits}M"));
    stage::put("a.json", &stage::manifest(pod, annotations));
}

fn ip(node: &Node, pod: &Pod, commands: &[&str]) {
    for command in commands {
        let arguments: Vec<&str> = command.split(' ').collect();
        pod.run(node, "ip", &arguments).unwrap();
    }
}

fn is_limited(node: &Node, pod: Option<&Pod>, link: &str, megabits: u64) -> bool {
    let arguments = ["qdisc", "show", "dev", link];
    let shown = match pod {
        Some(pod) => pod.run(node, "tc", &arguments),
        None => node.run("tc", &arguments),
    };
    shown.unwrap().contains(&format!("rate {megabits}Mbit"))
}

#[test]
fn whatever_they_are_called_and_wherever_they_are() {
    let Some(node) = stage::node() else { return };
    let (a, _b) = stage::pods(&node);
    let rename = |from: &str, to: &str| {
        let renamed = format!("link set {from} name {to}");
        let [down, up] =
            [(from, "down"), (to, "up")].map(|(link, it)| format!("link set {link} {it}"));
        ip(&node, &a, &[&down, &renamed, &up]);
    };
    let is_held = |link, megabits| {
        is_limited(&node, Some(&a), link, megabits)
            && is_limited(&node, None, a.host_link(), megabits)
    };
    // Nobody has recorded it: it is the only one that leads out of the pod.
    rename("eth0", "eth0-nic");
    ip(&node, &a, &["tuntap add eth0 mode tap", "link set eth0 up"]);
    limit(&a, 10);
    let agent = Agent::start();
    assert!(stage::eventually(|| is_held("eth0-nic", 10)));
    rename("eth0-nic", "x");
    limit(&a, 20);
    assert!(stage::eventually(|| is_held("x", 20)));
    // Another agent goes by the record.
    agent.kill();
    let _agent = Agent::start();
    limit(&a, 30);
    assert!(stage::eventually(|| is_held("x", 30)));
    assert!(!is_limited(&node, Some(&a), "eth0", 30));
    let status = stage::pod_status("a").unwrap();
    let links: Vec<&str> = status.limits.iter().map(|it| it.link.as_str()).collect();
    assert_eq!(
        (status.failing.as_str(), links),
        ("", vec![a.host_link(), "x"])
    );

    node.empty_pod("nested").unwrap();
    ip(&node, &a, &["link set x netns nested"]);
    limit(&a, 40);
    let names_it = || {
        let problems = stage::status().problems;
        problems.iter().any(|it| it.message.contains(a.host_link()))
    };
    assert!(stage::eventually(names_it));
    assert!(is_limited(&node, None, a.host_link(), 40));
    assert!(!is_limited(&node, Some(&a), "eth0", 40));
}

/// Two of the pod's links lead to the host, and have changed their names.
#[test]
fn by_the_other_end_that_a_cached_result_names() {
    let Some(node) = stage::node() else { return };
    let (a, _b) = stage::pods(&node);
    let other = a.another_veth(&node, "net1").unwrap();
    let file = stage::remembered(&a);
    let mut cached: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    cached["result"]["interfaces"] =
        json!([{"name": a.host_link()}, {"name": "eth0", "sandbox": a.netns()}]);
    fs::write(&file, cached.to_string()).unwrap();
    ip(
        &node,
        &a,
        &[
            "link set eth0 down",
            "link set eth0 name x",
            "link set net1 down",
            "link set net1 name eth0",
            "link set x name net1",
            "link set eth0 up",
            "link set net1 up",
        ],
    );
    limit(&a, 10);
    let _agent = Agent::start();
    assert!(is_limited(&node, None, a.host_link(), 10));
    assert!(is_limited(&node, Some(&a), "net1", 10));
    assert!(!is_limited(&node, None, &other, 10));
}
