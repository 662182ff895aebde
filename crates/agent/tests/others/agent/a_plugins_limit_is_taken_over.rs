use std::path::PathBuf;

use netqos_core::{Attachment, BitRate, Limit, Limits};
use netqos_datapath::{AttachedPod, AttachedPods, HostLinks, LimitDatapath, Paths, Request};
use netqos_testkit::Pod;
use serde_json::json;

use super::stage::{self, Agent};

/// What the plugin does in an ADD.
pub(crate) fn plugin_limits(pod: &Pod, megabits: u64) {
    let attachment = Attachment::try_new("net", pod.name(), "eth0").unwrap();
    limit(pod, &attachment, megabits);
}

fn limit(pod: &Pod, attachment: &Attachment, megabits: u64) {
    let limit = Limit::of(BitRate::from_bits_per_second(megabits * 1_000_000));
    let netns: PathBuf = pod.netns();
    LimitDatapath::open(Paths::from_variables(|_| None))
        .unwrap()
        .apply(&Request {
            attachment,
            netns: &netns,
            ends: None,
            host_links: HostLinks::Unknown,
            limits: Limits {
                ingress: Some(limit),
                egress: Some(limit),
            },
            egress: Default::default(),
            hook: Default::default(),
            is_running: false,
        })
        .unwrap();
}

fn annotated(pod: &Pod, rate: &str) -> String {
    let annotations = json!({
        "kubernetes.io/egress-bandwidth": rate, "kubernetes.io/ingress-bandwidth": rate,
    });
    stage::manifest(pod, annotations)
}

#[test]
fn without_touching_what_is_right() {
    let Some(node) = stage::node() else { return };
    let (a, _b) = stage::pods(&node);
    plugin_limits(&a, 10);
    let before = node.state(&[&a]).unwrap();
    stage::put("a.json", &annotated(&a, "10M"));
    let agent = Agent::start();
    assert_eq!(stage::status().reconciled.limits, 0);
    agent.terminate();
    // It has its own, and brings the programs for rules.
    let after = node.state(&[&a]).unwrap();
    let after = after.without("/run/netqos/agent.").without("/sys/fs/bpf");
    let before = before.without("/sys/fs/bpf");
    after.assert_is(&before, "the agent found a limit as it should be");
}

/// A limit that no annotation asks for may be one of the network's configuration.
#[test]
fn but_only_one_that_the_annotation_asked_for_is_lifted() {
    let Some(node) = stage::node() else { return };
    let (a, b) = stage::pods(&node);
    plugin_limits(&a, 10);
    plugin_limits(&b, 10);
    stage::remember(
        &b,
        json!({"bandwidth": {"ingressRate": 10_000_000, "egressRate": 10_000_000}}),
    );
    for pod in [&a, &b] {
        stage::put(
            &format!("{}.json", pod.name()),
            &stage::manifest(pod, json!({})),
        );
    }
    let _agent = Agent::start();
    let tbf = |pod: &Pod| {
        let shown = node.run("tc", &["qdisc", "show", "dev", pod.host_link()]);
        shown.unwrap().contains("tbf")
    };
    assert!(tbf(&a), "the network's limit was lifted");
    assert!(!tbf(&b), "the annotation's limit is still there");
}

/// The pod's selection of that network requests it. The pod's annotations are for its first interface.
#[test]
fn and_that_of_a_selected_network_stays() {
    let Some(node) = stage::node() else { return };
    let (a, _b) = stage::pods(&node);
    let outside = a.another_veth(&node, "net1").unwrap();
    let attachment = Attachment::try_new("storage", a.name(), "net1").unwrap();
    limit(&a, &attachment, 10);
    let attached = AttachedPod {
        attachment,
        netns: a.netns(),
        namespace: "games".to_owned(),
        name: a.name().to_owned(),
        uid: None,
        addresses: Default::default(),
        ends: None,
        has_annotations: true,
    };
    let attached_pods = AttachedPods::new(Paths::from_variables(|_| None).pods());
    attached_pods.write(&attached).unwrap();
    stage::put("a.json", &stage::manifest(&a, json!({})));
    let _agent = Agent::start();
    let shown = node.run("tc", &["qdisc", "show", "dev", &outside]).unwrap();
    assert!(shown.contains("tbf"), "{shown}");
}

/// A living attachment's limit stays when nothing is known of its pod.
#[test]
fn and_stays_when_the_object_goes() {
    let Some(node) = stage::node() else { return };
    let (a, _b) = stage::pods(&node);
    plugin_limits(&a, 10);
    stage::put("a.json", &annotated(&a, "20M"));
    let _agent = Agent::start();
    let rate = |rate: &str| {
        let shown = node.run("tc", &["qdisc", "show", "dev", a.host_link()]);
        shown.unwrap().contains(rate)
    };
    assert!(rate("20Mbit"));
    std::fs::remove_file(format!("{}/a.json", stage::MANIFESTS)).unwrap();
    assert!(stage::eventually(|| stage::pod_status("a").is_none()));
    assert!(rate("20Mbit"));
}
