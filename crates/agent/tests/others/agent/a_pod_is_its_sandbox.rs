//! The name of a pod is that of another one before and after it, and the kubelet knows a static pod by a hash.

use std::fs;
use std::time::Duration;

use netqos_core::{Attachment, Limits};
use netqos_datapath::{HostLinks, LimitDatapath, Paths};
use netqos_testkit::{Node, Pod};
use serde_json::{Value, json};

use super::a_changed_annotation_takes_effect_live::{bandwidth, is_held};
use super::a_plugins_limit_is_taken_over::plugin_limits;
use super::stage::{self, Agent};

/// The object of the pod `a` with this uid.
fn object(pod: &Pod, uid: &str, rate: &str, hash: Option<&str>) -> String {
    let mut annotations = bandwidth(rate);
    if let Some(hash) = hash {
        annotations["kubernetes.io/config.hash"] = hash.into();
    }
    let mut object: Value = serde_json::from_str(&stage::manifest(pod, annotations)).unwrap();
    object["metadata"]["name"] = "a".into();
    object["metadata"]["uid"] = uid.into();
    object.to_string()
}

/// What a plugin and the runtime do for a sandbox of the pod `a`: a limit of 10 Mbit/s.
fn add(pod: &Pod, uid: &str) {
    plugin_limits(pod, 10);
    let limit = json!({"ingressRate": 10_000_000, "egressRate": 10_000_000});
    stage::remember_sandbox(pod, "a", uid, json!({"bandwidth": limit}));
}

/// The same for its DEL, and for the end of the sandbox.
fn del(node: &Node, pod: &Pod) {
    let attachment = Attachment::try_new("net", pod.name(), "eth0").unwrap();
    LimitDatapath::open(Paths::from_variables(|_| None))
        .unwrap()
        .teardown(
            &attachment,
            Some(&pod.netns()),
            HostLinks::Unknown,
            &Limits::default(),
        )
        .unwrap();
    fs::remove_file(stage::remembered(pod)).unwrap();
    let link = pod.host_link();
    node.run("ip", &["link", "delete", link]).unwrap();
}

#[test]
fn a_static_pod_is_known_by_its_hash() {
    let Some(node) = stage::node() else { return };
    let a = node.pod("a").unwrap();
    add(&a, "hash");
    stage::put("a.json", &object(&a, "mirror", "20M", Some("hash")));
    stage::put("p.yaml", &stage::policy("p", "a", "[{dscp: 46}]"));
    let _agent = Agent::start();
    assert!(stage::eventually(|| is_held(&node, &a, "20Mbit")));
    let pod = stage::pod_status("a").unwrap();
    assert_eq!((pod.failing.as_str(), pod.limits[1].rate), ("", 20_000_000));
    assert_eq!(pod.rules.len(), 1);
}

/// The agent hears of the new object late; it may also just start.
#[test]
fn a_sandbox_keeps_its_limit_until_its_own_object_says_otherwise() {
    let Some(node) = stage::node() else { return };
    let (old, new) = (node.pod("old").unwrap(), node.pod("new").unwrap());
    add(&old, "1");
    stage::put("a.json", &object(&old, "1", "10M", None));
    let agent = Agent::start();
    add(&new, "2");
    // The old one lifts nothing.
    stage::put("a.json", &object(&old, "1", "30M", None));
    assert!(stage::eventually(|| is_held(&node, &old, "30Mbit")));
    assert!(is_held(&node, &new, "10Mbit"));
    stage::put("a.json", &object(&old, "1", "10M", None));
    assert!(stage::eventually(|| is_held(&node, &old, "10Mbit")));
    del(&node, &old);
    let is_found = || stage::pod_status("a").is_some_and(|it| !it.interface.is_empty());
    assert!(stage::eventually(|| !is_found()));
    agent.kill();
    let _agent = Agent::start();
    std::thread::sleep(Duration::from_secs(1));
    assert!(is_held(&node, &new, "10Mbit"));
    stage::put("a.json", &object(&new, "2", "20M", None));
    assert!(stage::eventually(|| is_held(&node, &new, "20Mbit")));
}

/// A StatefulSet makes its pod again and again.
#[test]
fn a_name_that_is_used_again_costs_no_moment_of_a_limit() {
    let Some(node) = stage::node() else { return };
    let mut before = node.pod("s0").unwrap();
    add(&before, "0");
    stage::put("a.json", &object(&before, "0", "10M", None));
    let _agent = Agent::start();
    for uid in 1..=50 {
        let next = node.pod(&format!("s{uid}")).unwrap();
        add(&next, &uid.to_string());
        let object = object(&next, &uid.to_string(), "10M", None);
        std::thread::sleep(Duration::from_millis(20));
        if uid % 2 == 0 {
            stage::put("a.json", &object);
            del(&node, &before);
        } else {
            del(&node, &before);
            stage::put("a.json", &object);
        }
        let is_known = || {
            let pod = stage::pod_status("a");
            pod.is_some_and(|it| it.uid == uid.to_string() && it.limits.len() == 2)
        };
        assert!(stage::eventually(is_known), "{uid}");
        assert!(is_held(&node, &next, "10Mbit"), "{uid}");
        before = next;
    }
    for change in ["limits lifted", "limits set", "restored limit"] {
        assert!(!stage::has_logged(&[change]), "{}", stage::log());
    }
}
