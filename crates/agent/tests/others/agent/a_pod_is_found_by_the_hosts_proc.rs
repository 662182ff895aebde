use std::path::Path;
use std::process::Command;

use netqos_agent::agent_lock;
use serde_json::{Value, json};

use super::cgroup::{Driver, Tree};
use super::stage::{self, Agent, Flow, MANIFESTS, RUN};

const UID: &str = "c94e8b27-5b3f-4d6a-9e40-71d2f8a3b6e5";
/// Where the host's `/proc` is mounted for the agent.
const HOST: &str = "/run/host-proc";

/// As in a container without `hostPID`: its own `/proc` shows nobody of the node, and cgroups show it
/// no numbers of processes.
#[test]
fn wherever_that_is_mounted() {
    let Some(tree) = Tree::of_v2() else { return };
    let Some(node) = stage::node() else { return };
    let (a, b) = (node.pod("a").unwrap(), node.pod("b").unwrap());
    stage::put("p.yaml", &stage::policy("p", "a", "[{dscp: 46}]"));
    let annotations = json!({"kubernetes.io/egress-bandwidth": "80M"});
    let mut object: Value = serde_json::from_str(&stage::manifest(&a, annotations)).unwrap();
    object["metadata"]["uid"] = UID.into();
    stage::put("a.json", &object.to_string());
    let mut sandbox = tree.sandbox(UID, Driver::Systemd);
    sandbox.run_in(&a);

    let agent = start_in_a_pid_namespace(&tree, &[]);
    let told = || {
        let problems = stage::status().problems.into_iter();
        let mut texts = problems.map(|it| it.message);
        texts.any(|text| text.contains("--proc"))
    };
    assert!(stage::eventually(told), "{:?}", stage::status().problems);
    end(agent);

    std::fs::create_dir(HOST).unwrap();
    node.run("mount", &["--bind", "/proc", HOST]).unwrap();
    let agent = start_in_a_pid_namespace(&tree, &["--proc", HOST]);
    let flow = Flow::begin(&a, &b, std::time::Duration::from_millis(1));
    flow.wait_for(46);
    let is_limited = || {
        let pod = stage::pod_status("a");
        pod.is_some_and(|pod| pod.failing.is_empty() && pod.limits.len() == 1)
    };
    assert!(stage::eventually(is_limited));
    assert!(stage::status().problems.is_empty());
    drop(flow.end());
    end(agent);
}

/// An agent in a PID namespace of its own, with a `/proc` of that.
fn start_in_a_pid_namespace(tree: &Tree, more: &[&str]) -> Agent {
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--mount-proc", "--kill-child", "--"]);
    command.arg(stage::executable());
    command.args(["--node", "node1", "--manifests", MANIFESTS]);
    command.args(["--cgroup-root", tree.path()]).args(more);
    let agent = Agent::spawn_by(&mut command);
    agent.wait_until_ready();
    agent
}

/// Ends it, and waits until it is gone: what is killed is who started it.
fn end(agent: Agent) {
    agent.kill();
    assert!(stage::eventually(|| agent_lock(Path::new(RUN)).is_ok()));
}
