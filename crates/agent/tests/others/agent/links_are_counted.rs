//! The links that netqos makes are counted.

use serde_json::json;

use super::stage::{self, Agent};
use super::the_nodes_lines_are_planned::put_config;

#[test]
fn status_and_metrics_count_links_by_purpose() {
    let Some(node) = stage::node() else { return };
    stage::line(&node);
    let (a, _b) = stage::pods(&node);
    put_config(20, "1000M");
    let limit = json!({"kubernetes.io/egress-bandwidth": "80M"});
    stage::put("a.json", &stage::manifest(&a, limit));
    stage::put(
        "p.yaml",
        &stage::policy("p", "a", "[{bandwidth: {rate: 8000}}]"),
    );
    let _agent = Agent::start_with(&["--egress", "ifb"]);
    let counts = || {
        let links = stage::status().links;
        (
            links.rules,
            links.limits,
            links.uplinks,
            links.most_of_rules,
        )
    };
    let is_so = stage::eventually(|| counts() == (2, 1, 1, 1024));
    assert!(is_so, "{:?}", counts());
    let metrics = stage::ask("/metrics");
    for sample in [
        "netqos_links{purpose=\"rule\"} 2",
        "netqos_links{purpose=\"limit\"} 1",
        "netqos_links{purpose=\"uplink\"} 1",
        "netqos_rule_links_limit 1024",
    ] {
        assert!(metrics.contains(sample), "{sample} is not in {metrics}");
    }
}
