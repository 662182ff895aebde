use std::net::IpAddr;

use serde_json::json;

use super::second_network::{assert_rate, server};
use super::stage::{self, Agent};

fn profile(name: &str, app: &str, spec: &str) -> String {
    format!(
        "apiVersion: netqos.io/v1alpha1\nkind: BandwidthProfile\n\
         metadata: {{name: {name}, namespace: games}}\n\
         spec: {{podSelector: {{matchLabels: {{app: {app}}}}}, {spec}}}\n"
    )
}

/// The rates that are in force on `a`, ingress and egress in Mbit/s; 0: none.
fn held() -> [u64; 2] {
    let limits = stage::pod_status("a").map_or_else(Vec::new, |pod| pod.limits);
    ["ingress", "egress"].map(|direction| {
        let mut limits = limits.iter().filter(|limit| limit.in_force);
        let limit = limits.find(|limit| limit.direction == direction);
        limit.map_or(0, |limit| limit.rate / 1_000_000)
    })
}

#[test]
fn where_their_annotations_say_nothing() {
    let Some(node) = stage::node() else { return };
    let (a, b) = stage::pods(&node);
    let (to, to_b): (IpAddr, _) = (b.address().parse().unwrap(), server(&b));
    stage::put("a.json", &stage::manifest(&a, json!({})));
    stage::put(
        "free.yaml",
        &profile("free", "a", "egress: {rate: 20M}, ingress: {rate: 30M}"),
    );
    let _agent = Agent::start();
    let holds = |rates: [u64; 2]| {
        assert!(stage::eventually(|| held() == rates), "{:?}", held());
    };
    holds([30, 20]);
    assert_rate(&a, to, &to_b, 40, 20.0);
    // The profile changes.
    stage::put(
        "free.yaml",
        &profile("free", "a", "egress: {rate: 50M}, ingress: {rate: 30M}"),
    );
    holds([30, 50]);
    assert_rate(&a, to, &to_b, 100, 50.0);
    // The annotation of one direction decides that one.
    let annotation = json!({"kubernetes.io/egress-bandwidth": "10M"});
    stage::put("a.json", &stage::manifest(&a, annotation));
    holds([30, 10]);
    assert_rate(&a, to, &to_b, 20, 10.0);
    stage::put("a.json", &stage::manifest(&a, json!({})));
    holds([30, 50]);
    // Another profile of higher priority, for one direction.
    stage::put(
        "high.yaml",
        &profile("high", "a", "priority: 1, ingress: {rate: 5M}"),
    );
    holds([5, 50]);
    // It is for other pods: for this one nothing of it.
    stage::put("free.yaml", &profile("free", "b", "egress: {rate: 50M}"));
    holds([5, 0]);
    // The pod's labels.
    let mut relabelled: serde_json::Value =
        serde_json::from_str(&stage::manifest(&a, json!({}))).unwrap();
    relabelled["metadata"]["labels"]["app"] = "b".into();
    stage::put("a.json", &relabelled.to_string());
    holds([0, 50]);
    // One that cannot be read is told of, and holds nobody.
    stage::put("free.yaml", &profile("free", "b", "egress: {rate: 1}"));
    holds([0, 0]);
    let says = "spec.egress.rate: \"1\": it is not between 1000 and 1000000000000000 bits";
    let problems = stage::status().problems;
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].message.contains(says), "{problems:?}");
    assert!(
        stage::eventually(|| stage::pod_status("a").is_none()),
        "{:?}",
        stage::pod_status("a")
    );
}
