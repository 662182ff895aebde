//! What the status says where an agent is dead, gone, or takes everything away.

use std::thread;
use std::time::Duration;

use serde_json::json;

use crate::world::{HOME, World};

const REPORT: (&str, &str, &str) = ("netqos.io/v1alpha1", "NetworkQoSNodeReport", "");

/// A node with an agent's pod, on which a policy is in force for one pod.
fn ready() -> World {
    let world = World::new();
    world.agent_pod("agent", "node1", true, false);
    world.put_in_force();
    world
}

impl World {
    /// A second node, whose agent says that it has the policy in force for one pod, too.
    fn join_second_node(&self) {
        self.create("v1", "Node", "", json!({"metadata": {"name": "node2"}}));
        self.create_pod("b", "web", "node2", "10.0.0.2");
        self.report("node2", &[("p", 1)], &json!([]));
    }
}

/// The kernel enforces, and not the agent: what was there stays in force, and only what has come since
/// is not.
#[test]
fn a_dead_agent_takes_nothing_from_what_was_there_and_what_is_new_is_not_in_force() {
    let world = ready();
    let _replica = world.replica("one");
    world.wait_for("p", "Ready", "True", "Ready");
    let of = world.policies();
    let version = || world.get(of, "p").unwrap()["metadata"]["resourceVersion"].clone();
    let before = version();
    world.agent_pod("agent", "node1", false, false);
    // Longer than what may pass by itself is not said.
    thread::sleep(Duration::from_secs(13));
    assert_eq!(version(), before, "its death alone changes nothing");

    world.create_pod("b", "web", "node1", "10.0.0.2");
    let said = world.wait_for("p", "Programmed", "False", "AgentNotReady");
    let new = format!("has not seen Pod {}/b", world.namespace);
    assert!(said.contains(&new), "{said}");
    let status = world.get(of, "p").unwrap()["status"].clone();
    assert_eq!(
        (&status["nodes"], &status["rules"]),
        (&json!("0/1"), &json!(1))
    );
    world.agent_pod("agent", "node1", true, false);
    world.wait_for("p", "Ready", "True", "Ready");

    // Gone altogether it is no better; one that comes in its place is not there before it is ready.
    world.delete(("v1", "Pod", HOME), "agent");
    world.merge(of, "p", &json!({"spec": {"priority": 11}}));
    let said = world.wait_for("p", "Ready", "False", "AgentNotReady");
    assert!(
        said.contains("puts generation 2 in force when it is"),
        "{said}"
    );
    world.agent_pod("next", "node1", false, false);
    thread::sleep(Duration::from_secs(1));
    world.wait_for("p", "Ready", "False", "AgentNotReady");
    world.agent_pod("next", "node1", true, false);
    world.wait_for("p", "Ready", "False", "Pending");
    world.report("node1", &[("p", 2)], &json!([]));
    world.wait_for("p", "Ready", "True", "Ready");
    // What passes by itself is no event.
    assert_eq!(world.events("NetworkQoS", "QoSUpdateFailed").len(), 0);
}

/// Its agent may be a service of the node, which no pod tells of; and a pod elsewhere is none of its.
#[test]
fn where_no_agent_was_ever_a_pod_none_is_taken_for_dead() {
    let world = ready();
    world.join_second_node();
    let _replica = world.replica("one");
    world.wait_for("p", "Ready", "True", "Ready");
    world.create_pod("c", "web", "node2", "10.0.0.3");
    world.agent_pod("agent", "node1", false, false);
    thread::sleep(Duration::from_secs(13));
    world.wait_for("p", "Ready", "True", "Ready");
}

/// A controller that begins finds the reports of agents whose pods are gone: as when all of its replicas
/// were away meanwhile.
#[test]
fn an_agent_that_went_while_no_controller_was_there_is_missed() {
    let world = World::new();
    for node in ["node2", "node3"] {
        world.create("v1", "Node", "", json!({"metadata": {"name": node}}));
    }
    world.agent_pod("agent", "node1", true, false);
    world.create_policy("p", "web", "db");
    for (node, pod) in [
        ("node1", Some("agent")),
        ("node2", Some("gone")),
        ("node3", None),
    ] {
        world.create_pod(node, "web", node, &format!("10.0.0.{}", &node[4..]));
        world.report_of_pod(node, pod, &[("p", 1)]);
    }
    let _replica = world.replica("one");
    world.wait_for("p", "Ready", "True", "Ready");
    // It cannot put this in force, and the others have.
    world.merge(world.policies(), "p", &json!({"spec": {"priority": 11}}));
    world.report_of_pod("node1", Some("agent"), &[("p", 2)]);
    world.report_of_pod("node3", None, &[("p", 2)]);
    let said = world.wait_for("p", "Programmed", "False", "AgentNotReady");
    assert!(
        said.starts_with("in force on 2 of 3 nodes; node2: "),
        "{said}"
    );
    world.agent_pod("next", "node2", true, false);
    world.report_of_pod("node2", Some("next"), &[("p", 2)]);
    world.wait_for("p", "Ready", "True", "Ready");
}

/// Nothing is in force then: neither report nor status goes on to say so.
#[test]
fn what_was_said_of_a_node_is_taken_back_when_netqos_leaves_it() {
    let world = ready();
    world.join_second_node();
    let _replica = world.replica("one");
    world.wait_for("p", "Ready", "True", "Ready");
    world.delete(("v1", "Pod", HOME), "agent");
    world.agent_pod("leaving", "node1", false, true);
    let said = world.wait_for("p", "Ready", "False", "Leaving");
    assert!(
        said.starts_with("in force on 1 of 2 nodes; node1: netqos leaves"),
        "{said}"
    );
    world.eventually("the report stays", || world.get(REPORT, "node1").is_none());
    assert!(world.get(REPORT, "node2").is_some());

    // It comes back.
    world.delete(("v1", "Pod", HOME), "leaving");
    world.agent_pod("agent", "node1", true, false);
    world.wait_for("p", "Ready", "False", "Pending");
    world.report("node1", &[("p", 1)], &json!([]));
    world.wait_for("p", "Ready", "True", "Ready");
    thread::sleep(Duration::from_secs(2));
    assert!(world.get(REPORT, "node1").is_some());
}
