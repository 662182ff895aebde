//! Beside OVN-Kubernetes, which enforces NetworkQoS and writes its status, too.

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::world::World;

const POD: (&str, &str, &str) = ("v1", "Pod", "ovn-kubernetes");

impl World {
    /// The pod of OVN-Kubernetes on node1, with NetworkQoS switched on.
    fn create_ovn_pod(&self) {
        let home = json!({"metadata": {"name": POD.2}});
        self.create("v1", "Namespace", "", home);
        self.create_ovn_pod_in(POD.2);
    }

    /// One that says it is.
    fn create_ovn_pod_in(&self, namespace: &str) {
        let pod = json!({
            "metadata": {
                "name": "ovnkube-node-1", "labels": {"app": "ovnkube-node"},
                "ownerReferences": [{
                    "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "ovnkube-node",
                    "uid": "11111111-1111-1111-1111-111111111111", "controller": true
                }]
            },
            "spec": {
                "nodeName": "node1", "hostNetwork": true,
                "containers": [{
                    "name": "ovnkube-controller", "image": "i",
                    "env": [{"name": "OVN_NETWORK_QOS_ENABLE", "value": "true"}]
                }]
            }
        });
        self.create(POD.0, POD.1, namespace, pod);
    }

    /// What OVN-Kubernetes writes of a policy: a node its condition, and its cluster manager the text.
    fn apply_as_ovn(&self, name: &str) {
        self.apply_condition(name, "node1", "Ready-In-Zone-node1");
        let text = json!({"status": "NetworkQoS Destinations applied"});
        self.apply_status(name, "cluster-manager", &text);
    }

    fn status_of(&self, name: &str) -> Value {
        self.get(self.policies(), name).unwrap()["status"].clone()
    }
}

fn types(status: &Value) -> Vec<&str> {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    conditions.map(|it| it["type"].as_str().unwrap()).collect()
}

#[test]
fn where_it_enforces_network_qos_no_status_is_ours_and_an_event_says_so_once() {
    let world = World::new();
    world.put_in_force();
    world.create_ovn_pod();
    world.apply_as_ovn("p");
    let before = world.status_of("p");
    let _replica = world.replica("one");
    world.wait_for_event("NetworkQoS", "EnforcedElsewhere");
    world.report("node1", &[("p", 1)], &json!([]));
    thread::sleep(Duration::from_secs(3));
    assert_eq!(world.status_of("p"), before);
    assert_eq!(world.status_writes("one"), 0);
    let events = world.events("NetworkQoS", "EnforcedElsewhere");
    assert_eq!(events.len(), 1);
    let note = events[0].data["note"].as_str().unwrap();
    assert!(note.starts_with("OVN-Kubernetes enforces"), "{note}");
    assert!(world.events("NetworkQoS", "QoSProgrammed").is_empty());

    // Its pod is replaced: for that while it is still there.
    world.delete(POD, "ovnkube-node-1");
    thread::sleep(Duration::from_secs(3));
    assert_eq!(world.status_writes("one"), 0);
}

/// Who may create pods in a namespace of their own silences nobody's status.
#[test]
fn a_tenants_pod_that_calls_itself_ovn_kubernetes_changes_nothing() {
    let world = World::new();
    world.put_in_force();
    world.create_ovn_pod_in(&world.namespace);
    let one = world.replica("one");
    world.wait_for("p", "Ready", "True", "Ready");
    assert!(world.events("NetworkQoS", "EnforcedElsewhere").is_empty());
    one.kill();
    // Where an administrator says that this is where OVN-Kubernetes lives, it is.
    let home = format!("--ovn-kubernetes-namespaces=net,{}", world.namespace);
    let _two = world.replica_with("two", &[&home]);
    world.eventually("our conditions stay", || {
        types(&world.status_of("p")).is_empty()
    });
}

/// It is switched on while netqos is at work.
#[test]
fn what_was_ours_of_a_status_is_taken_back_and_what_is_its_own_stays() {
    let world = World::new();
    world.put_in_force();
    let _replica = world.replica("one");
    world.wait_for("p", "Ready", "True", "Ready");
    world.create_ovn_pod();
    world.apply_as_ovn("p");
    world.eventually("our conditions stay", || {
        types(&world.status_of("p")) == ["Ready-In-Zone-node1"]
    });
    let status = world.status_of("p");
    assert_eq!(status["status"], "NetworkQoS Destinations applied");
    assert_eq!(status["nodes"], Value::Null);
}

#[test]
fn where_an_administrator_has_netqos_enforce_it_is_as_ever() {
    let world = World::new();
    world.put_in_force();
    world.create_ovn_pod();
    let always = world.replica_with("one", &["--network-qos", "always"]);
    world.wait_for("p", "Ready", "True", "Ready");
    always.kill();
    let _never = world.replica_with("two", &["--network-qos", "never"]);
    world.eventually("our conditions stay", || {
        types(&world.status_of("p")).is_empty()
    });
}

/// Whoever it is, and whoever was first.
#[test]
fn a_text_and_a_zone_of_somebody_elses_are_not_fought_for() {
    let world = World::new();
    world.create_pod("a", "web", "node1", "10.0.0.1");
    world.create_pod("b", "web", "node2", "10.0.0.2");
    world.create_policy("p", "web", "db");
    world.report("node1", &[("p", 1)], &json!([]));
    world.report("node2", &[("p", 1)], &json!([]));
    world.apply_as_ovn("p");
    let theirs = json!({"status": "theirs"});
    world.apply_status("p", "cluster-manager", &theirs);
    let _replica = world.replica("one");
    world.wait_for("p", "Ready", "True", "Ready");
    assert_eq!(world.status_of("p")["status"], "theirs");
    let zone = world.condition("p", "Ready-In-Zone-node1").unwrap();
    assert_eq!(zone.1, "Because");
    let written = world.status_writes("one");
    thread::sleep(Duration::from_secs(3));
    assert_eq!(
        world.status_writes("one"),
        written,
        "it writes again and again"
    );

    // Somebody takes the text that is ours.
    world.create_policy("late", "web", "db");
    world.report("node1", &[("p", 1), ("late", 1)], &json!([]));
    world.report("node2", &[("p", 1), ("late", 1)], &json!([]));
    world.wait_for("late", "Ready", "True", "Ready");
    world.apply_status("late", "cluster-manager", &theirs);
    world.merge(world.policies(), "late", &json!({"spec": {"priority": 11}}));
    world.wait_for("late", "Ready", "False", "Pending");
    assert_eq!(world.status_of("late")["status"], "theirs");
}

/// A definition of NetworkQoS whose status lacks these fields, in place of ours, which it gives back.
fn define_without(world: &World, lacking: &[&str]) -> Value {
    let definitions = netqos_k8s::definitions();
    let crds = definitions.iter().map(|it| it.crd().unwrap());
    let ours = crds
        .map(|crd| serde_json::to_value(crd).unwrap())
        .find(|crd| crd["metadata"]["name"] == "networkqoses.k8s.ovn.org")
        .unwrap();
    let mut theirs = ours.clone();
    let schema = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties";
    let status = theirs.pointer_mut(schema).unwrap().as_object_mut().unwrap();
    for lacking in lacking {
        status.remove(*lacking).unwrap();
    }
    theirs["spec"]["versions"][0]["additionalPrinterColumns"] = Value::Null;
    world.define(&theirs);
    ours
}

/// One of a version before this one: the other counts are there.
#[test]
fn with_an_older_definition_what_it_lacks_is_left_out_alone() {
    let world = World::new();
    let ours = define_without(&world, &["rules"]);
    world.put_in_force();
    let _replica = world.replica("one");
    world.wait_for("p", "Ready", "True", "Ready");
    let status = world.status_of("p");
    assert_eq!(
        (&status["nodes"], &status["selectedPods"]),
        (&json!("1/1"), &json!(1))
    );
    assert_eq!(status["rules"], Value::Null);
    world.define(&ours);
}

/// As it is where OVN-Kubernetes was installed first, and NetworkQoS is not switched on.
#[test]
fn with_its_definition_there_are_conditions_and_no_counts() {
    let world = World::new();
    let ours = define_without(&world, &["nodes", "selectedPods", "rules"]);
    world.put_in_force();
    let _replica = world.replica("one");
    world.wait_for("p", "Ready", "True", "Ready");
    let status = world.status_of("p");
    assert_eq!(status["status"], "NetworkQoS Destinations applied");
    assert_eq!(status["nodes"], Value::Null);
    world.define(&ours);
}

/// What no count is left out for is tried again as what else is refused.
#[test]
fn with_a_definition_that_lacks_something_else_statuses_are_not_tried_again_and_again() {
    let world = World::new();
    let ours = define_without(&world, &["status"]);
    world.put_in_force();
    let one = world.replica("one");
    let is_refused = || world.log(&one).contains("p could not be written");
    world.eventually("it is not refused", is_refused);
    let before = world.status_writes("one");
    assert!(before > 0);
    thread::sleep(Duration::from_secs(3));
    assert_eq!(world.status_writes("one"), before);
    world.define(&ours);
    world.wait_for("p", "Ready", "True", "Ready");
}
