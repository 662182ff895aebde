//! What a change of rules replaces is removed soon after it, though nothing else happens.

use netqos_bpf::rules::Rules;
use serde_json::json;

use crate::stage::{self, Agent};

#[test]
fn replaced_rules_leave_the_kernel_without_another_change() {
    let Some(node) = stage::node() else { return };
    let (a, _b) = stage::pods(&node);
    stage::put("a.json", &stage::manifest(&a, json!({})));
    let _agent = Agent::start();
    for dscp in [10, 20, 30] {
        let rules = format!("[{{dscp: {dscp}}}]");
        stage::put("p.yaml", &stage::policy("p", "a", &rules));
        let marks = |pod: netqos_agent::PodStatus| {
            let first = pod.rules.first();
            first.is_some_and(|rule| rule.dscp == Some(dscp))
        };
        assert!(stage::eventually(
            || stage::pod_status("a").is_some_and(marks)
        ));
        let rules = Rules::open("/sys/fs/bpf".as_ref()).unwrap().unwrap();
        let chains = || rules.chains.keys().unwrap().len();
        assert!(stage::eventually(|| chains() == 1), "{} chains", chains());
    }
}
