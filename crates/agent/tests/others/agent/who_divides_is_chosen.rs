//! Who divides the lines: by the flag, by netQOSPolicy while it runs, by the node's label over both.

use netqos_testkit::Node;
use serde_json::json;

use super::stage::{self, Agent};
use super::the_nodes_lines_are_planned::{classes, put_config, put_config_map};

fn is_by_kernel(node: &Node) -> bool {
    classes(node).contains("class htb 6e71:4 ")
}

fn is_by_tc(node: &Node) -> bool {
    classes(node).contains("class htb 1:4 ")
}

fn backend() -> String {
    stage::status().class_backend
}

/// Who divides the line, and whether it is known how much comes by it.
fn divided() -> (String, bool) {
    let line = &stage::status().lines[0];
    let mut ways = line.directions.iter();
    let ingress = ways.find(|way| way.direction == "ingress").unwrap();
    (line.divided_by.clone(), ingress.rate.is_some())
}

/// What the ConfigMap says of the shares, and of who keeps them.
fn put_policy(policy: &str) {
    let class = json!({"networkQOS": {"enable": true, "egressRequest": 20}});
    let resources = json!({"clusterStrategy": {
        "policies": {"netQOSPolicy": policy}, "beClass": class,
    }});
    put_config_map(&resources, "1000M");
}

#[test]
fn by_the_flag_the_policy_and_the_label() {
    let Some(node) = stage::node() else { return };
    stage::line(&node);
    put_config(20, "1000M");
    let _agent = Agent::start_with(&["--class-backend", "tc"]);
    assert_eq!(backend(), "tc");
    assert!(stage::eventually(|| is_by_tc(&node)), "{}", stage::log());
    assert!(!is_by_kernel(&node));

    put_policy("kernel");
    assert!(
        stage::eventually(|| is_by_kernel(&node)),
        "{}",
        stage::log()
    );
    assert_eq!(backend(), "kernel");
    assert!(!is_by_tc(&node));
    let sets = || node.run("ipset", &["list", "-name"]).unwrap();
    assert_eq!(sets(), "");
    let is_counted = || divided() == ("kernel".to_owned(), true);
    assert!(stage::eventually(is_counted), "{:?}", divided());

    put_policy("tc");
    assert!(stage::eventually(|| is_by_tc(&node)), "{}", stage::log());
    assert!(!is_by_kernel(&node));
    assert!(sets().contains("be_class\n"), "{}", sets());
    // Which has nothing of what comes, so that its rate is not what it was.
    let is_not = || divided() == ("tc".to_owned(), false);
    assert!(stage::eventually(is_not), "{:?}", divided());

    let label = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "node1", "labels": {"netqos.io/class-backend": "none"}}
    });
    stage::put("node.json", &label.to_string());
    assert!(stage::eventually(|| !classes(&node).contains("htb")));
    assert_eq!(backend(), "none");
    assert_eq!(sets(), "");
    let is_nobodys = || divided() == (String::new(), false);
    assert!(stage::eventually(is_nobodys), "{:?}", divided());
}

/// The kernel announces no change of ipsets and iptables rules.
#[test]
fn removed_ipset_or_iptables_rule_is_restored_within_thirty_seconds() {
    let Some(node) = stage::node() else { return };
    stage::line(&node);
    put_config(20, "1000M");
    let _agent = Agent::start_with(&["--class-backend", "tc"]);
    let state = || {
        let run = |program: &str, words: &[&str]| node.run(program, words).unwrap();
        run("ipset", &["list", "-name"]) + &run("iptables", &["-t", "mangle", "-S"])
    };
    let is_whole = || state().contains("be_class\n") && state().contains("--match-set be_class");
    assert!(stage::eventually(is_whole), "{}", stage::log());
    let whole = state();
    let fault = "iptables -t mangle -F && ip6tables -t mangle -F && ipset destroy";
    node.run("sh", &["-c", fault]).unwrap();
    assert_ne!(state(), whole);
    // It waits for 20 seconds.
    let is_restored = || state() == whole && stage::status().reconciled.uplinks_restored == 1;
    assert!(stage::eventually(is_restored), "{}", stage::log());
}
