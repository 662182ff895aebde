//! What is said of policies.

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::world::World;

/// What the test's node says is wrong.
fn problem(world: &World, kind: &str, name: &str, reason: &str) -> Value {
    json!([{
        "kind": kind, "namespace": world.namespace, "name": name,
        "reason": reason, "message": "load sch_tbf"
    }])
}

#[test]
fn a_policy_is_ready_when_the_nodes_of_its_pods_have_said_so() {
    let world = World::new();
    world.create("v1", "Node", "", json!({"metadata": {"name": "node2"}}));
    world.create_pod("a", "web", "node1", "10.0.0.1");
    world.create_pod("b", "web", "node2", "10.0.0.2");
    world.create_policy("p", "web", "db");
    let _replica = world.replica("one");
    let said = world.wait_for("p", "Ready", "False", "Pending");
    assert!(said.starts_with("in force on 0 of 2 nodes; node1 has said nothing yet"));
    world.report("node1", &[("p", 1)], &json!([]));
    world.report("node2", &[("p", 1)], &json!([]));
    world.wait_for("p", "Ready", "True", "Ready");
    let status = || world.get(world.policies(), "p").unwrap()["status"].clone();
    assert_eq!(status()["status"], "NetworkQoS Destinations applied");
    assert_eq!(status()["nodes"], "2/2");
    assert_eq!(status()["selectedPods"], 2);
    assert_eq!(status()["conditions"][0]["observedGeneration"], 1);

    // Another generation: what was said is of the one before.
    world.merge(world.policies(), "p", &json!({"spec": {"priority": 11}}));
    world.wait_for("p", "Ready", "False", "Pending");
    world.report("node1", &[("p", 2)], &json!([]));
    let failed = problem(&world, "Pod", "b", "KernelFeatureMissing");
    world.report("node2", &[("p", 2)], &failed);
    let said = world.wait_for("p", "Ready", "False", "KernelFeatureMissing");
    assert!(
        said.starts_with("in force on 1 of 2 nodes; node2: Pod"),
        "{said}"
    );
    world.report("node2", &[("p", 2)], &json!([]));
    world.wait_for("p", "Ready", "True", "Ready");
}

/// It is ready all the same; what is so has a condition, and only as long as it is.
#[test]
fn lesser_means_and_others_at_work_have_conditions() {
    let world = World::new();
    world.create_pod("a", "web", "node1", "10.0.0.1");
    world.create_pod("b", "web", "node2", "10.0.0.2");
    world.create_policy("p", "web", "db");
    world.report("node1", &[("p", 1)], &json!([]));
    let of = |kind: &str, name: &str, reason: &str, message: &str| -> Value {
        json!({"kind": kind, "name": name, "reason": reason, "message": message})
    };
    let mut lacks = of("NetworkQoS", "p", "KernelFeatureMissing", "no veth");
    lacks["namespace"] = world.namespace.clone().into();
    let beside = of("Node", "node2", "AnotherAtWork", "koordlet is at work");
    let left = of("Node", "node2", "AnnotationsElsewhere", "Cilium limits");
    world.report("node2", &[("p", 1)], &json!([lacks, beside, left]));
    let _replica = world.replica("one");
    let said = world.wait_for("p", "Degraded", "True", "KernelFeatureMissing");
    assert_eq!(said, "on 1 of 2 nodes; node2: no veth");
    let said = world.wait_for("p", "AnotherAtWork", "True", "AnotherAtWork");
    assert_eq!(
        said,
        "on 1 of 2 nodes; node2: koordlet is at work; Cilium limits"
    );
    world.wait_for("p", "Ready", "True", "Ready");
    let observed = || {
        let status = world.get(world.policies(), "p").unwrap()["status"].clone();
        let conditions = status["conditions"].as_array().unwrap().clone().into_iter();
        conditions
            .map(|it| it["observedGeneration"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(observed(), vec![json!(1); 5]);
    world.wait_for_event("NetworkQoS", "Degraded");
    assert_eq!(world.events("NetworkQoS", "AnotherAtWork").len(), 0);
    world.report("node2", &[("p", 1)], &json!([]));
    world.eventually("the conditions stay", || observed().len() == 3);
}

#[test]
fn an_object_that_breaks_a_rule_is_told_which() {
    let world = World::new();
    let (api_version, kind, namespace) = world.policies();
    world.write_past_rules(json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {"name": "old", "namespace": namespace},
        "spec": {"priority": 200, "egress": [{"dscp": 1}]}
    }));
    let _replica = world.replica("one");
    let said = world.wait_for("old", "Accepted", "False", "Invalid");
    assert!(said.contains("spec.priority"), "{said}");
    world.wait_for("old", "Ready", "False", "Invalid");
}

#[test]
fn condition_of_another_manager_stays() {
    let world = World::new();
    world.put_in_force();
    world.apply_condition("p", "somebody", "Seen");
    let _replica = world.replica("one");
    world.wait_for("p", "Ready", "True", "Ready");
    assert!(world.condition("p", "Seen").is_some());
}

/// Also of who comes after it.
#[test]
fn a_status_is_written_when_it_differs_and_not_else() {
    let world = World::new();
    world.put_in_force();
    let one = world.replica("one");
    world.wait_for("p", "Ready", "True", "Ready");
    let version =
        || world.get(world.policies(), "p").unwrap()["metadata"]["resourceVersion"].clone();
    let before = version();
    // More pods, on this node and on another one that says so in time.
    world.create_pod("b", "web", "node1", "10.0.0.2");
    world.create_pod("c", "web", "node2", "10.0.0.3");
    thread::sleep(Duration::from_secs(2));
    world.report("node2", &[("p", 1)], &json!([]));
    thread::sleep(Duration::from_secs(2));
    assert_eq!(version(), before);
    one.kill();
    let _two = world.replica("two");
    world.wait_for_leader("two");
    // It counts anew: that is one write.
    world.eventually("two has not counted", || {
        world.get(world.policies(), "p").unwrap()["status"]["nodes"] == "2/2"
    });
    thread::sleep(Duration::from_secs(2));
    let mut written = world.requests_for("two", "patch", "networkqoses");
    written.retain(|it| it.status == 200);
    assert_eq!(written.len(), 1, "{written:#?}");
}

#[test]
fn events_say_when_something_becomes_so() {
    let world = World::new();
    world.put_in_force();
    let _replica = world.replica("one");
    world.wait_for("p", "Ready", "True", "Ready");
    let bad = problem(&world, "Pod", "a", "InvalidBandwidth");
    world.report("node1", &[("p", 1)], &bad);
    let told = |kind: &str, reason: &str| {
        let events = world.list(("events.k8s.io/v1", "Event", &world.namespace));
        events
            .into_iter()
            .find(|event| event.data["regarding"]["kind"] == kind && event.data["reason"] == reason)
    };
    world.eventually("no event of the pod", || {
        told("Pod", "InvalidBandwidth").is_some()
    });
    world.eventually("no event of the policy", || {
        told("NetworkQoS", "QoSProgrammed").is_some()
    });
    let event = told("Pod", "InvalidBandwidth").unwrap();
    let pod = world.get(("v1", "Pod", &world.namespace), "a").unwrap();
    assert_eq!(event.data["regarding"]["uid"], pod["metadata"]["uid"]);
    assert_eq!(event.data["note"], "load sch_tbf (on node1)");
    // The first that a node says.
    let first = problem(&world, "Pod", "a", "EndpointUnreachable");
    world.report("node2", &[], &first);
    world.eventually("no event of the new node", || {
        told("Pod", "QoSUpdateFailed").is_some()
    });
    // Its reason is one of a few that stay; which of the agent's it is, is said, too.
    let event = told("Pod", "QoSUpdateFailed").unwrap();
    let note = "EndpointUnreachable: load sch_tbf (on node2)";
    assert_eq!(event.data["note"], note);
    let failed = problem(&world, "NetworkQoS", "p", "UpdateFailed");
    world.report("node1", &[("p", 1)], &failed);
    world.eventually("no event of the failure", || {
        told("NetworkQoS", "QoSUpdateFailed").is_some()
    });
    // It said so before, and says so still: nothing is told again.
    let invalid = || {
        let events = world.list(("events.k8s.io/v1", "Event", &world.namespace));
        let about = events
            .iter()
            .filter(|it| it.data["reason"] == "InvalidBandwidth");
        about.count()
    };
    assert_eq!(invalid(), 1);
}

#[test]
fn what_a_node_said_goes_with_it() {
    let world = World::new();
    world.create("v1", "Node", "", json!({"metadata": {"name": "gone"}}));
    world.report("gone", &[], &json!([]));
    world.report("node1", &[], &json!([]));
    let _replica = world.replica("one");
    world.delete(("v1", "Node", ""), "gone");
    let of = ("netqos.io/v1alpha1", "NetworkQoSNodeReport", "");
    let begin = std::time::Instant::now();
    while world.get(of, "gone").is_some() {
        assert!(begin.elapsed() < Duration::from_secs(60));
        thread::sleep(Duration::from_millis(200));
    }
    // A node that restarts is not there for a moment.
    assert!(begin.elapsed() > Duration::from_secs(20));
    assert!(world.get(of, "node1").is_some());
}

#[test]
fn a_policy_made_anew_is_not_ready_by_what_was_said_of_the_one_before() {
    let world = World::new();
    world.create_pod("a", "web", "node1", "10.0.0.1");
    world.create_policy("p", "web", "db");
    let uid = || world.get(world.policies(), "p").unwrap()["metadata"]["uid"].clone();
    let report = |uid: &Value| {
        world.report_as(&json!([{
            "namespace": world.namespace, "name": "p", "uid": uid, "generation": 1
        }]));
    };
    let first = uid();
    report(&first);
    let _replica = world.replica("one");
    world.wait_for("p", "Ready", "True", "Ready");
    world.delete(world.policies(), "p");
    world.create_policy("p", "web", "db");
    assert_ne!(uid(), first);
    world.wait_for("p", "Ready", "False", "Pending");
    report(&uid());
    world.wait_for("p", "Ready", "True", "Ready");
}

/// By its words an agent of an older version is known, and what a newer one says besides is no matter.
#[test]
fn reports_of_agents_of_other_versions_count_and_are_told_of() {
    let world = World::new();
    let ours = world.define_without_rules("NetworkQoSNodeReport");
    world.create("v1", "Node", "", json!({"metadata": {"name": "node2"}}));
    world.create_pod("a", "web", "node1", "10.0.0.1");
    world.create_pod("b", "web", "node2", "10.0.0.2");
    world.create_policy("p", "web", "db");
    let of = |node: &str, version: &str, policy: Value| {
        let mut report = json!({
            "apiVersion": "netqos.io/v1alpha1", "kind": "NetworkQoSNodeReport",
            "metadata": {"name": node},
            "agentVersion": version, "problems": [], "policies": [policy], "heartbeat": {"of": "now"}
        });
        report["policies"][0]["namespace"] = world.namespace.clone().into();
        world.create("netqos.io/v1alpha1", "NetworkQoSNodeReport", "", report);
    };
    let uid = world.get(world.policies(), "p").unwrap()["metadata"]["uid"].clone();
    of("node1", "0.0.9", json!({"name": "p", "generation": 1}));
    let newer = json!({"name": "p", "uid": uid, "generation": 1, "since": "now"});
    of("node2", "7.0.0", newer);
    let replica = world.replica("one");
    world.wait_for("p", "Ready", "True", "Ready");
    let log = world.log(&replica);
    for (node, version) in [("node1", "0.0.9"), ("node2", "7.0.0")] {
        let told = format!("the agent of {node} is of version {version}, and this is ");
        assert_eq!(log.matches(&told).count(), 1, "{log}");
    }
    world.define(&ours);
}
