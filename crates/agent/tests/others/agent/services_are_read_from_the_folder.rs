use std::fs;
use std::path::Path;
use std::time::Duration;

use netqos_testkit::Pod;
use serde_json::json;

use super::proxy;
use super::service;
use super::stage::{self, Agent, Flow, MANIFESTS, Seen};

const EVERY: Duration = Duration::from_millis(1);

/// A connection to the Service, from its first datagram on.
fn connection(from: &Pod, to: &Pod) -> Vec<Seen> {
    let flow = Flow::begin_by(from, service::virtual_port(), to, EVERY);
    let seen = flow.end_after(10);
    assert_eq!(seen[0].number, 0, "{seen:?}");
    seen
}

/// True when connections to the Service come to be marked so, each of them whole.
fn is_marked(from: &Pod, to: &Pod, dscp: u8) -> bool {
    stage::eventually(|| {
        let seen = connection(from, to);
        seen.iter().all(|seen| seen.dscp == dscp)
    })
}

#[test]
fn and_a_rule_for_pods_is_for_their_virtual_address_as_long_as_they_stand_behind_it() {
    let Some(node) = stage::node() else { return };
    if !proxy::is_there(&node) {
        return;
    }
    let (a, b) = stage::pods(&node);
    let c = node.pod("c").unwrap();
    stage::remember(&c, json!({}));
    for pod in [&a, &b, &c] {
        let file = format!("{}.json", pod.name());
        stage::put(&file, &stage::manifest(pod, json!({})));
    }
    let rules = "[{dscp: 20, classifier: {to: [{podSelector: {matchLabels: {app: b}}}]}}]";
    stage::put("p.yaml", &stage::policy("p", "a", rules));
    stage::put("service.yaml", &service::object());
    stage::put("slice.yaml", &service::slice(&b));
    service::forward(&node, &b);
    let _agent = Agent::start();
    // What is there when it is ready is in force: no second try.
    assert!(connection(&a, &b).iter().all(|seen| seen.dscp == 20));

    stage::put("slice.yaml", &service::slice(&c));
    service::forward(&node, &c);
    assert!(is_marked(&a, &c, 0), "the backend of before still counts");
    stage::put("slice.yaml", &service::slice(&b));
    service::forward(&node, &b);
    assert!(is_marked(&a, &b, 20), "the backend does not count again");

    // Nobody knows any more where the address leads, though it goes on leading there.
    for (file, text) in [
        ("slice.yaml", service::slice(&b)),
        ("service.yaml", service::object()),
    ] {
        fs::remove_file(Path::new(MANIFESTS).join(file)).unwrap();
        assert!(is_marked(&a, &b, 0), "without {file}");
        stage::put(file, &text);
        assert!(is_marked(&a, &b, 20), "with {file} again");
    }
    let status = stage::status();
    assert_eq!(status.problems, []);
    for kind in ["Service", "EndpointSlice"] {
        assert_eq!(status.objects.get(kind), Some(&1), "{kind}");
    }
}
