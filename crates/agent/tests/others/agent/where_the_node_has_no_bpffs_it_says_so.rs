use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::json;

use super::stage::{self, Agent, Flow, MANIFESTS};

const BPFFS: &str = "/run/bpf";
/// A folder like `/proc`, in which the first process is one that sees what the agent mounts.
const PROC: &str = "/run/proc-of-the-node";

/// What is in force is in force all the same.
#[test]
fn where_it_mounts_one_for_itself() {
    let Some(node) = stage::node() else { return };
    let (a, b) = stage::pods(&node);
    stage::put("a.json", &stage::manifest(&a, json!({})));
    stage::put("p.yaml", &stage::policy("p", "a", "[{dscp: 46}]"));
    let agent = start("/proc");
    let flow = Flow::begin(&a, &b, std::time::Duration::from_millis(1));
    flow.wait_for(46);
    drop(flow.end());
    let problems = stage::status().problems;
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_eq!(problems[0].reason, "PinsNotOnNode");
    assert!(
        problems[0].message.contains("mount -t bpf bpf /run/bpf"),
        "{problems:?}"
    );
    assert!(stage::ask("/metrics").contains("PinsNotOnNode"));
    agent.kill();
    // Whoever finds one there may rely on it.
    let agent = start("/proc");
    assert_eq!(stage::status().problems, []);
    agent.kill();
}

#[test]
fn unless_the_node_sees_it_too() {
    let Some(_node) = stage::node() else { return };
    // That of this thread, and not the machine's.
    let own = fs::read_link("/proc/thread-self").unwrap();
    fs::create_dir(PROC).unwrap();
    symlink(Path::new("/proc").join(own), Path::new(PROC).join("1")).unwrap();
    let _agent = start(PROC);
    assert!(
        Path::new(BPFFS).join("netqos").is_dir(),
        "nothing is pinned"
    );
    assert_eq!(stage::status().problems, []);
}

fn start(proc: &str) -> Agent {
    let objects = ["--node", "node1", "--manifests", MANIFESTS];
    let agent = Agent::spawn_on(&objects, &["--proc", proc], &[("NETQOS_BPFFS", BPFFS)]);
    agent.wait_until_ready();
    agent
}
