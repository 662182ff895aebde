use std::time::Duration;

use netqos_testkit::{Node, Pod};
use serde_json::json;

use super::stage::{self, Agent, Flow, assert_no_loss};

pub(crate) fn bandwidth(rate: &str) -> serde_json::Value {
    json!({"kubernetes.io/egress-bandwidth": rate, "kubernetes.io/ingress-bandwidth": rate})
}

/// The qdiscs that hold a pod: in it, and on the host.
fn held(node: &Node, pod: &Pod) -> [String; 2] {
    let inside = pod
        .run(node, "tc", &["qdisc", "show", "dev", "eth0"])
        .unwrap();
    let outside = node
        .run("tc", &["qdisc", "show", "dev", pod.host_link()])
        .unwrap();
    [inside, outside]
}

pub(crate) fn is_held(node: &Node, pod: &Pod, rate: &str) -> bool {
    let tbf = format!("rate {rate} ");
    held(node, pod)
        .iter()
        .all(|text| text.contains("qdisc tbf") && text.contains(&tbf))
}

#[test]
fn without_a_lost_packet_and_goes_again() {
    let Some(node) = stage::node() else { return };
    let (a, b) = stage::pods(&node);
    let before = node.state(&[&a]).unwrap();
    stage::put("a.json", &stage::manifest(&a, bandwidth("10M")));
    let agent = Agent::start();
    assert!(is_held(&node, &a, "10Mbit"), "{:?}", held(&node, &a));
    let pod = stage::pod_status("a").unwrap();
    assert_eq!(pod.failing, "");
    assert_eq!(pod.limits[1].rate, 10_000_000);
    let flow = Flow::begin(&a, &b, Duration::from_millis(1));
    flow.wait_for(0);
    for rate in ["20", "50", "5"] {
        stage::put(
            "a.json",
            &stage::manifest(&a, bandwidth(&format!("{rate}M"))),
        );
        let rate = format!("{rate}Mbit");
        assert!(
            stage::eventually(|| is_held(&node, &a, &rate)),
            "{:?}",
            held(&node, &a)
        );
        std::thread::sleep(Duration::from_millis(30));
    }
    assert_no_loss(&flow.end());
    let limit = &stage::pod_status("a").unwrap().limits[1];
    assert!(limit.counts.unwrap().packets > 50, "{limit:?}");
    stage::put("a.json", &stage::manifest(&a, json!({})));
    assert!(stage::eventually(|| !held(&node, &a)
        .concat()
        .contains("tbf")));
    agent.terminate();
    // Programs stay pinned, for the next.
    let after = node.state(&[&a]).unwrap();
    let (before, after) = (before.without("/"), after.without("/"));
    after.assert_is(&before, "a limit came and went");
}

/// An annotation that went while there was no agent.
#[test]
fn also_when_it_went_meanwhile() {
    let Some(node) = stage::node() else { return };
    let (a, _b) = stage::pods(&node);
    stage::put("a.json", &stage::manifest(&a, bandwidth("10M")));
    Agent::start().kill();
    assert!(is_held(&node, &a, "10Mbit"), "{:?}", held(&node, &a));
    stage::put("a.json", &stage::manifest(&a, json!({})));
    let _agent = Agent::start();
    assert!(
        !held(&node, &a).concat().contains("tbf"),
        "{:?}",
        held(&node, &a)
    );
}

/// A pod that the runtime took away while there was no agent, which alone knew of its limit.
#[test]
fn also_when_the_pod_went_meanwhile() {
    let Some(node) = stage::node() else { return };
    let (a, _b) = stage::pods(&node);
    stage::put("a.json", &stage::manifest(&a, bandwidth("10M")));
    Agent::start().kill();
    assert_eq!(node.files("/run/netqos/attachments").len(), 2);
    std::fs::remove_file(stage::remembered(&a)).unwrap();
    a.remove(&node).unwrap();
    let _agent = Agent::start();
    assert_eq!(node.files("/run/netqos/agent-limits"), [""; 0]);
    assert_eq!(node.files("/run/netqos/attachments"), [""; 0]);
}
