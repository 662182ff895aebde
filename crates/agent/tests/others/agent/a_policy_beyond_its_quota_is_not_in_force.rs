use std::time::Duration;

use super::stage::{self, Agent, Flow};

fn quota(most: u32) -> String {
    format!(
        "apiVersion: netqos.io/v1alpha1\nkind: NetworkQoSQuota\nmetadata: {{name: tenants}}\n\
         spec: {{namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: games}}}}, \
         priority: {{max: {most}}}, dscp: [10, 46]}}\n"
    )
}

#[test]
fn and_its_problem_names_the_field_and_the_quota() {
    let Some(node) = stage::node() else { return };
    let (a, b) = stage::pods(&node);
    stage::put("a.json", &stage::manifest(&a, serde_json::json!({})));
    stage::put("p.yaml", &stage::policy("p", "a", "[{dscp: 10}]"));
    stage::put("quota.yaml", &quota(1));
    let _agent = Agent::start();
    let flow = Flow::begin(&a, &b, Duration::from_millis(1));
    // On the bound.
    flow.wait_for(10);
    stage::put("quota.yaml", &quota(0));
    flow.wait_for(0);
    let problems = stage::status().problems;
    assert_eq!(problems.len(), 1, "{problems:?}");
    let problem = &problems[0];
    assert_eq!(
        (&*problem.name, &*problem.reason),
        ("games/p", "QuotaExceeded")
    );
    let says = "spec.priority: 1 is not between 0 and 0 (NetworkQoSQuota tenants)";
    assert!(problem.message.contains(says), "{}", problem.message);
    // Another policy is not in force by its mark alone.
    stage::put("quota.yaml", &quota(1));
    flow.wait_for(10);
    stage::put("p.yaml", &stage::policy("p", "a", "[{dscp: 20}]"));
    flow.wait_for(0);
    let says = "spec.egress[0].dscp: 20 is not allowed, only 10, 46 are";
    assert!(stage::eventually(|| {
        let problems = stage::status().problems;
        problems
            .iter()
            .any(|problem| problem.message.contains(says))
    }));
    // Without the quota everything goes.
    stage::put("quota.yaml", "");
    flow.wait_for(20);
    assert!(stage::eventually(|| stage::status().problems.is_empty()));
    drop(flow.end());
}
