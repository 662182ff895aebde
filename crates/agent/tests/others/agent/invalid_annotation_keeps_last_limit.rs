use std::thread;
use std::time::Duration;

use netqos_testkit::{Node, Pod};
use serde_json::{Value, json};

use super::a_changed_annotation_takes_effect_live::{bandwidth, is_held};
use super::stage::{self, Agent};

/// The rates of a pod's queues: ingress, egress.
fn rates(node: &Node, pod: &Pod) -> [Option<String>; 2] {
    let outside = node.run("tc", &["qdisc", "show", "dev", pod.host_link()]);
    let inside = pod.run(node, "tc", &["qdisc", "show", "dev", "eth0"]);
    [outside.unwrap(), inside.unwrap()].map(|text| {
        let tbf = text.lines().find(|line| line.contains("qdisc tbf"))?;
        let mut words = tbf.split(' ').skip_while(|word| *word != "rate");
        words.nth(1).map(str::to_owned)
    })
}

fn annotated(ingress: &str, egress: &str) -> Value {
    json!({"kubernetes.io/ingress-bandwidth": ingress, "kubernetes.io/egress-bandwidth": egress})
}

fn put(pod: &Pod, annotations: Value) {
    stage::put("a.json", &stage::manifest(pod, annotations));
}

/// Waits for these rates, and that they stay.
fn assert_rates(node: &Node, pod: &Pod, expected: [Option<&str>; 2]) {
    let expected = expected.map(|rate| rate.map(str::to_owned));
    let reached = stage::eventually(|| rates(node, pod) == expected);
    assert!(reached, "{:?} is not {expected:?}", rates(node, pod));
    thread::sleep(Duration::from_millis(300));
    assert_eq!(rates(node, pod), expected);
}

fn problem(pod: &str) -> Option<String> {
    let problems = stage::status().problems.into_iter();
    let mut of_pod = problems.filter(|it| it.name == pod && it.reason == "InvalidBandwidth");
    of_pod.next().map(|it| it.message)
}

#[test]
fn running_pod_with_invalid_annotation_keeps_limit_of_that_direction() {
    let Some(node) = stage::node() else { return };
    let (a, _b) = stage::pods(&node);
    put(&a, bandwidth("10M"));
    let agent = Agent::start();
    assert!(is_held(&node, &a, "10Mbit"), "{:?}", rates(&node, &a));
    put(&a, annotated("10Mbit", "20M"));
    assert_rates(&node, &a, [Some("10Mbit"), Some("20Mbit")]);
    let told = problem("games/a").unwrap();
    for words in [
        "annotation kubernetes.io/ingress-bandwidth: \"10Mbit\"",
        "ingress keeps its last valid limit, 10 Mbit/s",
    ] {
        assert!(told.contains(words), "{words:?} is not in {told}");
    }
    // The next agent takes the limit from the record; so does one that comes when both are invalid.
    agent.kill();
    let agent = Agent::start();
    assert_rates(&node, &a, [Some("10Mbit"), Some("20Mbit")]);
    agent.terminate();
    put(&a, annotated("10Mbit", "fast"));
    let _agent = Agent::start();
    assert_rates(&node, &a, [Some("10Mbit"), Some("20Mbit")]);
    let told = problem("games/a").unwrap();
    assert!(told.contains("keeps its last valid limit"), "{told}");
    // An annotation that was removed is no mistake.
    put(&a, json!({"kubernetes.io/egress-bandwidth": "fast"}));
    assert_rates(&node, &a, [None, Some("20Mbit")]);
    put(&a, annotated("5M", "5M"));
    assert_rates(&node, &a, [Some("5Mbit"), Some("5Mbit")]);
    assert_eq!(problem("games/a"), None);
}

#[test]
fn pod_with_invalid_first_annotation_has_no_limit_in_that_direction() {
    let Some(node) = stage::node() else { return };
    let (a, _b) = stage::pods(&node);
    put(&a, annotated("10Mbit", "5M"));
    let _agent = Agent::start();
    assert_rates(&node, &a, [None, Some("5Mbit")]);
    let told = problem("games/a").unwrap();
    assert!(
        told.ends_with("ingress has no limit from annotations"),
        "{told}"
    );
}
