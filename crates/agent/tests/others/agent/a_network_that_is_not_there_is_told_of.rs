use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::stage::{self, Agent, Flow};

const POLICY: &str = "\
apiVersion: k8s.ovn.org/v1alpha1
kind: NetworkQoS
metadata: {name: storage, namespace: games}
spec:
  priority: 2
  podSelector: {}
  netAttachRefs: [{kind: NetworkAttachmentDefinition, name: storage}]
  egress: [{dscp: 12}]
";
const DEFINITION: &str = "\
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: storage, namespace: games}
spec: {config: '{\"cniVersion\": \"1.0.0\", \"name\": \"storage\", \"type\": \"macvlan\"}'}
";

/// In the status, the metrics and the log, until it is there; and on all other networks everything
/// is in force.
#[test]
fn until_it_is_there() {
    let Some(node) = stage::node() else { return };
    let (a, b) = stage::pods(&node);
    stage::put("a.json", &stage::manifest(&a, json!({})));
    stage::put("p.yaml", &stage::policy("p", "a", "[{dscp: 10}]"));
    stage::put("storage.yaml", POLICY);
    let _agent = Agent::start();
    let flow = Flow::begin(&a, &b, Duration::from_millis(1));
    flow.wait_for(10);
    assert!(flow.end().iter().all(|seen| seen.dscp == 10));

    let problems = stage::status().problems;
    assert_eq!(problems.len(), 1, "{problems:?}");
    let problem = &problems[0];
    assert_eq!(
        (
            problem.kind.as_str(),
            problem.name.as_str(),
            problem.reason.as_str()
        ),
        ("NetworkQoS", "games/storage", "NetworkNotFound")
    );
    assert!(
        problem
            .message
            .contains("no network definition games/storage"),
        "{problem:?}"
    );
    let sample = "netqos_problems{reason=\"NetworkNotFound\"} 1\n";
    let metrics = stage::ask("/metrics");
    assert!(metrics.contains(sample), "{metrics}");
    let words = ["WARN", "games/storage", "NetworkNotFound", &problem.message];
    assert!(stage::has_logged(&words), "{}", stage::log());

    stage::put("network.yaml", DEFINITION);
    assert!(stage::eventually(|| stage::status().problems.is_empty()));
    assert!(!stage::ask("/metrics").contains("NetworkNotFound"));
    let words = ["INFO", "games/storage", "NetworkNotFound", "not any more"];
    assert!(stage::has_logged(&words), "{}", stage::log());
    std::fs::remove_file(Path::new(stage::MANIFESTS).join("network.yaml")).unwrap();
    assert!(stage::eventually(|| stage::status().problems == problems));
}
