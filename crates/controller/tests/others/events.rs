//! What is told once, when it becomes so, and what is told again.

use netqos_faults::Fault;
use serde_json::{Value, json};

use crate::world::World;

/// A cluster in which `p` is in force for the pod `a`, and a problem that node1 may tell of.
fn ready() -> World {
    let world = World::new();
    world.put_in_force();
    world
}

fn problem(world: &World, kind: &str, name: &str, reason: &str) -> Value {
    let mut problem = json!({
        "kind": kind, "name": name, "reason": reason, "message": "give them different priorities"
    });
    if kind != "Node" {
        problem["namespace"] = world.namespace.clone().into();
    }
    json!([problem])
}

#[test]
fn a_conflict_is_told_of_its_policy_which_is_in_force_all_the_same() {
    let world = ready();
    let _replica = world.replica("one");
    world.wait_for("p", "Ready", "True", "Ready");
    let conflict = problem(&world, "NetworkQoS", "p", "Conflict");
    world.report("node1", &[("p", 1)], &conflict);
    world.wait_for("p", "Conflict", "True", "EqualPriority");
    let event = world.wait_for_event("NetworkQoS", "Conflict");
    let note = event.data["note"].as_str().unwrap();
    assert!(note.contains("give them different priorities"), "{note}");
    assert_eq!(event.data["type"], "Warning");
    let p = world.get(world.policies(), "p").unwrap();
    assert_eq!(event.data["regarding"]["uid"], p["metadata"]["uid"]);
    world.wait_for("p", "Ready", "True", "Ready");
}

/// With another one than before: the condition says so, in one write, and so does an event.
#[test]
fn a_conflict_with_another_policy_is_told_anew() {
    let world = World::new();
    world.create_pod("a", "web", "node1", "10.0.0.1");
    world.create_policy("p", "web", "db");
    let with = |other: &str| {
        let mut conflict = problem(&world, "NetworkQoS", "p", "Conflict");
        conflict[0]["message"] = format!("with {other}").into();
        world.report("node1", &[("p", 1)], &conflict);
    };
    with("q");
    let _replica = world.replica("one");
    let said = |words: &str| {
        world
            .condition("p", "Conflict")
            .is_some_and(|it| it.2 == words)
    };
    world.eventually("it is not said", || said("node1: with q"));
    world.wait_for("p", "Ready", "True", "Ready");
    let before = world.status_writes("one");
    with("r");
    world.eventually("it is not said anew", || said("node1: with r"));
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert_eq!(world.status_writes("one"), before + 1);
    let notes = || {
        let events = world.events("NetworkQoS", "Conflict").into_iter();
        let notes = events.map(|it| it.data["note"].as_str().unwrap().to_owned());
        notes.collect::<Vec<_>>()
    };
    world.eventually("no event of it", || {
        notes().contains(&"node1: with r".to_owned())
    });
}

/// Nobody leads: it is told by who leads next.
#[test]
fn what_appears_while_nobody_leads_is_told_by_the_next_leader() {
    let world = ready();
    let one = world.replica("one");
    world.wait_for("p", "Ready", "True", "Ready");
    let _two = world.standby("two");
    one.kill();
    let missed = problem(&world, "Pod", "a", "KernelFeatureMissing");
    world.report("node1", &[("p", 1)], &missed);
    world.wait_for_leader("two");
    let event = world.wait_for_event("Pod", "KernelFeatureMissing");
    assert_eq!(event.data["reportingInstance"], "two");
}

/// The server takes no event for a while, and far more come at once than are written meanwhile.
#[test]
fn what_cannot_be_told_at_once_is_told_later() {
    const PODS: usize = 250;
    let world = World::new();
    // What it finds when it comes is not reported again.
    let _replica = world.standby("one");
    world.wait_for_leader("one");
    let fault = Fault::status(503).on("create", "events").of("one");
    world.front.inject(fault.times(1));
    for part in 0..3 {
        let from = part * 100;
        let pods = from..PODS.min(from + 100);
        let problems = pods.map(|number| {
            json!({
                "kind": "Pod", "namespace": world.namespace, "name": format!("a{number}"),
                "reason": "InvalidBandwidth", "message": "m"
            })
        });
        let problems: Vec<Value> = problems.collect();
        world.report(&format!("node{part}"), &[], &json!(problems));
    }
    world.eventually("some are lost", || {
        world.events("Pod", "InvalidBandwidth").len() == PODS
    });
}

#[test]
fn what_the_kernel_lacks_is_told_of_the_pod_and_of_the_policy() {
    let world = ready();
    let _replica = world.replica("one");
    world.wait_for("p", "Ready", "True", "Ready");
    let lacking = problem(&world, "Pod", "a", "KernelFeatureMissing");
    world.report("node1", &[("p", 1)], &lacking);
    for kind in ["Pod", "NetworkQoS"] {
        let event = world.wait_for_event(kind, "KernelFeatureMissing");
        assert_eq!(event.data["type"], "Warning");
        assert_eq!(event.data["reportingController"], "netqos-controller");
    }
}

/// It comes, goes, and comes again: one event that says how often, whichever replica leads.
#[test]
fn the_same_again_is_one_event_with_a_count() {
    let world = ready();
    let one = world.replica("one");
    world.wait_for("p", "Ready", "True", "Ready");
    let invalid = problem(&world, "Pod", "a", "InvalidBandwidth");
    let events = || world.events("Pod", "InvalidBandwidth");
    world.report("node1", &[("p", 1)], &invalid);
    world.eventually("no event", || events().len() == 1);
    assert_eq!(events()[0].data["series"], Value::Null);
    let again = |count: i64| {
        world.report("node1", &[("p", 1)], &json!([]));
        // Seen, and not taken for one with what comes next.
        let seen = json!({"spec": {"priority": 10 + count}});
        world.merge(world.policies(), "p", &seen);
        world.report("node1", &[("p", count)], &json!([]));
        world.wait_for("p", "Ready", "True", "Ready");
        world.eventually("the controller is behind", || {
            let p = world.get(world.policies(), "p").unwrap();
            p["status"]["conditions"][0]["observedGeneration"] == count
        });
        world.report("node1", &[("p", count)], &invalid);
        world.eventually("it is not counted", || {
            events()[0].data["series"]["count"] == count
        });
    };
    again(2);
    again(3);
    one.stop();
    let _two = world.standby("two");
    world.wait_for_leader("two");
    again(4);
    assert_eq!(events().len(), 1);
}

#[test]
fn what_keeps_a_policy_out_is_told_of_it() {
    let world = ready();
    let _replica = world.replica("one");
    world.wait_for("p", "Ready", "True", "Ready");
    let told = |policy: &str, reason: &str, what: &str| {
        let of = world.get(world.policies(), policy).unwrap();
        let events = || {
            let mut events = world.events("NetworkQoS", reason);
            events.retain(|it| it.data["regarding"]["uid"] == of["metadata"]["uid"]);
            events
        };
        world.eventually("no event", || !events().is_empty());
        let event = events().remove(0);
        assert_eq!(event.data["type"], "Warning");
        let note = event.data["note"].as_str().unwrap();
        assert!(note.contains(what), "{note}");
    };
    let (api_version, kind, namespace) = world.policies();
    let lost = json!({
        "metadata": {"name": "lost"},
        "spec": {
            "priority": 1,
            "netAttachRefs": [{"kind": "NetworkAttachmentDefinition", "name": "nowhere"}],
            "podSelector": {},
            "egress": [{"dscp": 10, "classifier": {"to": []}}]
        }
    });
    world.create(api_version, kind, namespace, lost);
    told("lost", "NetworkNotFound", "nowhere");

    let quota = json!({
        "metadata": {"name": "tenants"},
        "spec": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": world.namespace}},
            "priority": {"max": 5}
        }
    });
    world.create("netqos.io/v1alpha1", "NetworkQoSQuota", "", quota);
    told("p", "QuotaExceeded", "10 is not between 0 and 5");
}

#[test]
fn what_is_left_to_others_on_a_node_is_told_of_the_node() {
    let world = ready();
    let _replica = world.replica("one");
    world.wait_for("p", "Ready", "True", "Ready");
    let left = problem(&world, "Node", "node1", "AnnotationsElsewhere");
    world.report("node1", &[("p", 1)], &left);
    let events = || {
        let events = world.list(("events.k8s.io/v1", "Event", "default"));
        let about = events.into_iter().filter(|it| {
            it.data["regarding"]["kind"] == "Node" && it.data["reason"] == "AnnotationsElsewhere"
        });
        about.count()
    };
    world.eventually("no event", || events() == 1);
    world.wait_for("p", "Ready", "True", "Ready");
}
