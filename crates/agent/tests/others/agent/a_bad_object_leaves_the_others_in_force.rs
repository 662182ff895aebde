use std::time::Duration;

use serde_json::json;

use super::stage::{self, Agent, Flow};

#[test]
fn and_is_told_of_everywhere() {
    let Some(node) = stage::node() else { return };
    let (a, b) = stage::pods(&node);
    stage::put(
        "a.json",
        &stage::manifest(&a, json!({"kubernetes.io/egress-bandwidth": "x"})),
    );
    let documents = [
        stage::policy("bad", "a", "[{dscp: 64}]"),
        stage::policy("good", "a", "[{dscp: 10}]"),
        "what: [".to_owned(),
    ];
    stage::put("p.yaml", &documents.join("---\n"));
    let _agent = Agent::start();
    let flow = Flow::begin(&a, &b, Duration::from_millis(1));
    flow.wait_for(10);
    // One that comes and goes does no harm, either.
    stage::put(
        "q.yaml",
        &stage::policy("q", "a", "[{dscp: 12, bandwidth: {burst: 1}}]"),
    );
    assert!(stage::eventually(|| stage::status().problems.len() == 4));
    let status = stage::status();
    let problems: Vec<(&str, &str)> = status
        .problems
        .iter()
        .map(|problem| (problem.name.as_str(), problem.reason.as_str()))
        .collect();
    assert_eq!(
        problems,
        [
            ("games/bad", "Invalid"),
            ("games/q", "Invalid"),
            ("games/a", "InvalidBandwidth"),
            ("/run/objects/p.yaml", "Invalid"),
        ]
    );
    assert!(status.problems[0].message.contains("spec.egress[0].dscp"));
    let metrics = stage::ask("/metrics");
    for line in [
        "netqos_invalid_objects 3",
        "netqos_problems{reason=\"Invalid\"} 3",
        "netqos_problems{reason=\"InvalidBandwidth\"} 1",
    ] {
        assert!(metrics.contains(line), "{line} is not in {metrics}");
    }
    for words in [
        [
            "WARN",
            "NetworkQoS games/bad",
            "Invalid",
            "spec.egress[0].dscp",
        ],
        [
            "WARN",
            "NetworkQoS games/q",
            "Invalid",
            "spec.egress[0].bandwidth",
        ],
        [
            "WARN",
            "Pod games/a",
            "InvalidBandwidth",
            "egress-bandwidth",
        ],
        ["WARN", "file /run/objects/p.yaml", "Invalid", "document 3"],
    ] {
        assert!(
            stage::has_logged(&words),
            "{words:?} is not in {}",
            stage::log()
        );
    }
    flow.wait_for(10);
    let seen = flow.end();
    assert!(seen.iter().all(|seen| seen.dscp == 10));
    stage::put("p.yaml", &stage::policy("good", "a", "[{dscp: 10}]"));
    stage::put("q.yaml", "");
    assert!(stage::eventually(|| stage::status().problems.len() == 1));
}
