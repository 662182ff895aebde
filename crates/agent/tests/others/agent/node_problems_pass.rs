use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use netqos_agent::client;
use serde_json::json;

use super::stage::{self, Agent, Flow};

/// A file stands where the folders down to the BPF file system should be made: no program can be
/// loaded, and no rule be put in force.
const OBSTACLE: &str = "/run/obstacle";
const BPFFS: &str = "/run/obstacle/bpf";

/// What is wrong with the node itself. (That the agent had to make a BPF file system of its own, where
/// the obstacle was, is so from then on.)
fn node_problems() -> Vec<String> {
    let problems = stage::status().problems.into_iter();
    let of_node =
        problems.filter(|problem| problem.kind == "Node" && problem.reason != "PinsNotOnNode");
    of_node.map(|problem| problem.message).collect()
}

fn begin() -> Option<(
    netqos_testkit::Node,
    netqos_testkit::Pod,
    netqos_testkit::Pod,
    Agent,
)> {
    let node = stage::node()?;
    let (a, b) = stage::pods(&node);
    fs::write(OBSTACLE, "").unwrap();
    stage::put("a.json", &stage::manifest(&a, json!({})));
    stage::put("p.yaml", &stage::policy("p", "a", "[{dscp: 46}]"));
    let agent = Agent::spawn_where(&[("NETQOS_BPFFS", BPFFS)]);
    let answers = || client::status(Path::new(stage::RUN)).is_ok();
    assert!(stage::eventually(answers), "it does not answer");
    assert!(stage::eventually(|| !node_problems().is_empty()));
    assert!(node_problems()[0].contains("no rule can be put in force"));
    let (code, text) = stage::answer("/readyz");
    assert_eq!(code, 503, "{text}");
    let failed = "[-]rules failed: no rule can be put in force: ";
    assert!(text.contains(failed), "{text}");
    assert!(text.contains("[+]limits ok\n"), "{text}");
    // It is not to be started anew for that.
    assert_eq!(stage::ask("/livez"), "ok\n");
    Some((node, a, b, agent))
}

#[test]
fn when_rules_can_be_put_in_force_after_all() {
    let Some((_node, a, b, _agent)) = begin() else {
        return;
    };
    fs::remove_file(OBSTACLE).unwrap();
    assert!(
        stage::eventually(|| node_problems().is_empty()),
        "{:?}",
        node_problems()
    );
    let flow = Flow::begin(&a, &b, Duration::from_millis(1));
    flow.wait_for(46);
    assert!(stage::status().is_ready());
}

/// Nobody misses what nothing needs.
#[test]
fn when_there_are_no_rules_any_more() {
    let Some((_node, _a, _b, _agent)) = begin() else {
        return;
    };
    assert!(!stage::status().is_ready());
    fs::remove_file(format!("{}/p.yaml", stage::MANIFESTS)).unwrap();
    assert!(
        stage::eventually(|| node_problems().is_empty()),
        "{:?}",
        node_problems()
    );
    assert!(stage::status().is_ready());
    // And is told of again as soon as something does.
    stage::put("p.yaml", &stage::policy("p", "a", "[{dscp: 46}]"));
    assert!(stage::eventually(|| !node_problems().is_empty()));
}

/// A kernel that refuses the programs, here for a map of another's that has their map's name. What the first
/// try left behind does not look like rules.
#[test]
fn also_to_an_agent_that_is_started_when_there_are_none_any_more() {
    let Some(node) = stage::node() else { return };
    let (a, _b) = stage::pods(&node);
    let pins = netqos_bpf::Pins::folder_in(Path::new("/sys/fs/bpf"));
    fs::create_dir_all(&pins).unwrap();
    netqos_testkit::foreign_map(pins.join("chains")).unwrap();
    stage::put("a.json", &stage::manifest(&a, json!({})));
    stage::put("p.yaml", &stage::policy("p", "a", "[{dscp: 46}]"));
    let agent = Agent::spawn_where(&[]);
    let answers = || client::status(Path::new(stage::RUN)).is_ok();
    assert!(stage::eventually(answers), "it does not answer");
    assert!(stage::eventually(|| !node_problems().is_empty()));
    assert!(node_problems()[0].contains("cannot load the eBPF programs"));
    assert!(!node_problems()[0].contains('\n'), "{:?}", node_problems());
    fs::remove_file(format!("{}/p.yaml", stage::MANIFESTS)).unwrap();
    agent.kill();
    let _agent = Agent::start();
    assert_eq!(node_problems(), [""; 0]);
    assert!(stage::status().is_ready());
}

/// What goes on failing is not tried without end: after 0.1, 0.2, 0.4, 0.8 and 1.6 seconds.
#[test]
fn and_those_that_do_not_are_tried_more_and_more_seldom() {
    let Some((_node, _a, _b, _agent)) = begin() else {
        return;
    };
    let tries = || stage::status().reconciled.retries;
    assert!(stage::eventually(|| tries() > 0), "it is not tried again");
    let began = Instant::now();
    for _ in 0..2 {
        std::thread::sleep(Duration::from_secs(3));
        let tries = tries() as f64;
        let doublings = (1.0 + began.elapsed().as_secs_f64() / 0.1).log2();
        assert!((3.0..doublings + 2.0).contains(&tries), "{tries}");
    }
}
