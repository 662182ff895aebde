use std::time::Duration;

use serde_json::json;

use crate::stage::{self, Agent, Flow};

/// Whoever deletes clsact deletes the programs of all others with it.
#[test]
fn by_itself_within_seconds() {
    let Some(node) = stage::node() else { return };
    let (a, b) = stage::pods(&node);
    stage::put("a.json", &stage::manifest(&a, json!({})));
    stage::put("p.yaml", &stage::policy("p", "a", "[{dscp: 46}]"));
    let _agent = Agent::start();
    let flow = Flow::begin(&a, &b, Duration::from_millis(5));
    flow.wait_for(46);
    let delete = ["qdisc", "del", "dev", a.host_link(), "clsact"];
    node.run("tc", &delete).unwrap();
    flow.wait_for(0);
    flow.wait_for(46);
    flow.end();
    assert_eq!(stage::status().reconciled.restored, 1);
    let metrics = stage::ask("/metrics");
    assert!(
        metrics.contains("netqos_hooks_restored_total 1\n"),
        "{metrics}"
    );
}
