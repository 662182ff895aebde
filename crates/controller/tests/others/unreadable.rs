//! Objects that cannot be read, which an older schema let pass.

use std::thread;
use std::time::Duration;

use netqos_faults::{Fault, Gate};
use serde_json::{Value, json};

use crate::world::World;

/// Puts something else into an object that is there, past the rules of its definition.
fn spoil(world: &World, of: (&str, &str, &str), name: &str, spec: &Value) {
    let mut object = world.get(of, name).unwrap();
    object["spec"] = spec.clone();
    world.write_past_rules(object);
}

/// The events that say that an object is invalid, by what they say.
fn told(world: &World, kind: &str) -> Vec<String> {
    let mut notes = Vec::new();
    for namespace in ["default", &world.namespace] {
        let events = world.list(("events.k8s.io/v1", "Event", namespace));
        let about = events
            .into_iter()
            .filter(|it| it.data["regarding"]["kind"] == kind && it.data["reason"] == "Invalid");
        notes.extend(about.map(|it| it.data["note"].as_str().unwrap().to_owned()));
    }
    notes
}

/// Agents keep what it said in force, by the sets that it named; so these stay published.
#[test]
fn whom_a_policy_meant_is_published_until_it_can_be_read_again() {
    let world = World::new();
    let _one = world.published_by_one();
    let policies = world.policies();
    let good = world.get(policies, "p").unwrap()["spec"].clone();
    spoil(
        &world,
        policies,
        "p",
        &json!({"priority": 200, "egress": []}),
    );
    let said = world.wait_for("p", "Accepted", "False", "Invalid");
    assert!(said.contains("spec.priority"), "{said}");
    world.wait_for("p", "Programmed", "False", "NotAccepted");
    // And go on to be right.
    world.create_pod("c", "db", "node1", "10.0.0.3");
    world.wait_for_peers(&[&["10.0.0.2", "10.0.0.3"]]);
    spoil(&world, policies, "p", &good);
    world.wait_for("p", "Accepted", "True", "Accepted");
    world.wait_for_peers(&[&["10.0.0.2", "10.0.0.3"]]);
    world.delete(policies, "p");
    world.wait_for_peers(&[]);
}

/// The API server accepts no status of an object whose spec is not an object.
#[test]
fn status_refused_is_an_event_and_written_once_the_object_is_fixed() {
    let world = World::new();
    let one = world.published_by_one();
    let policies = world.policies();
    let good = world.get(policies, "p").unwrap()["spec"].clone();
    world.wait_for("p", "Accepted", "True", "Accepted");
    // While the object is spoiled, the CRD has no rules, and the API server would accept a status.
    let gate = Gate::default();
    let fault = Fault::hold(&gate).on("patch", "networkqoses");
    world.front.inject(fault);
    spoil(&world, policies, "p", &json!("none"));
    let label = json!({
        "apiVersion": policies.0, "kind": policies.1, "metadata": {"labels": {"tier": "a"}}
    });
    world.eventually("the CRD has no rules", || {
        world.apply(policies, "p", "test", &label).is_err()
    });
    gate.open();
    world.eventually("no event", || !told(&world, "NetworkQoS").is_empty());
    let note = told(&world, "NetworkQoS").remove(0);
    assert!(
        note.contains("failed to create typed live object"),
        "{note}"
    );
    let attempts = world.status_writes(&one.name);
    thread::sleep(Duration::from_secs(12));
    assert_eq!(world.status_writes(&one.name), attempts, "asked again");
    assert_eq!(told(&world, "NetworkQoS").len(), 1);
    let fixed =
        json!({"priority": 7, "podSelector": good["podSelector"], "egress": good["egress"]});
    spoil(&world, policies, "p", &fixed);
    world.eventually("its status is not written", || {
        world.status_writes(&one.name) > attempts
    });
    world.wait_for("p", "Accepted", "True", "Accepted");
}

/// It does not fail open.
#[test]
fn a_quota_that_was_spoiled_still_bounds_and_an_event_says_in_what() {
    let world = World::new();
    let quotas = ("netqos.io/v1alpha1", "NetworkQoSQuota", "");
    let good = json!({"namespaceSelector": {}, "priority": {"max": 5}});
    world.create(
        quotas.0,
        quotas.1,
        "",
        json!({"metadata": {"name": "tenants"}, "spec": good}),
    );
    world.create_pod("a", "web", "node1", "10.0.0.1");
    world.create_policy("p", "web", "db");
    let _one = world.replica("one");
    world.wait_for("p", "Ready", "False", "QuotaExceeded");
    let bad = json!({"namespaceSelector": {}, "priority": {"max": "five"}});
    spoil(&world, quotas, "tenants", &bad);
    world.eventually("no event", || !told(&world, "NetworkQoSQuota").is_empty());
    let note = told(&world, "NetworkQoSQuota").remove(0);
    assert!(note.contains("spec.priority.max"), "{note}");
    assert!(note.contains("what it said before counts"), "{note}");
    // One that comes meanwhile is held to it, too.
    world.create_policy("q", "web", "db");
    world.wait_for("q", "Ready", "False", "QuotaExceeded");
    world.wait_for("p", "Ready", "False", "QuotaExceeded");

    spoil(&world, quotas, "tenants", &json!({"priority": {"max": 50}}));
    world.wait_for("p", "Accepted", "True", "Accepted");
    spoil(&world, quotas, "tenants", &bad);
    world.delete(quotas, "tenants");
    world.wait_for("q", "Accepted", "True", "Accepted");
}

/// Once, on the object itself, whatever each node says of it.
#[test]
fn a_profile_and_a_default_that_cannot_be_read_have_an_event_of_their_own() {
    let world = World::new();
    let namespace = world.namespace.clone();
    let object = |kind: &str, namespace: &str, spec: Value| {
        json!({
            "apiVersion": "netqos.io/v1alpha1", "kind": kind,
            "metadata": {"name": "bad", "namespace": namespace}, "spec": spec
        })
    };
    world.write_past_rules(object(
        "BandwidthProfile",
        &namespace,
        json!({"egress": {"rate": "slow"}}),
    ));
    let template = json!({"spec": {"priority": 1, "egress": [{"dscp": 64}]}});
    let mut default = object(
        "NetworkQoSDefault",
        "",
        json!({
            "namespaceSelector": {}, "template": template
        }),
    );
    default["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("namespace");
    world.write_past_rules(default);
    world.create("v1", "Node", "", json!({"metadata": {"name": "node2"}}));
    let problem = json!([{
        "kind": "BandwidthProfile", "namespace": namespace, "name": "bad", "reason": "Invalid",
        "message": "left out"
    }]);
    let _one = world.replica("one");
    for (kind, field) in [
        ("BandwidthProfile", "spec.egress.rate"),
        ("NetworkQoSDefault", "spec.template.spec.egress[0].dscp"),
    ] {
        world.eventually("no event", || !told(&world, kind).is_empty());
        let note = told(&world, kind).remove(0);
        assert!(note.contains(field), "{note}");
    }
    for node in ["node1", "node2"] {
        world.report(node, &[], &problem);
    }
    // Seen by then.
    world.create_pod("a", "web", "node1", "10.0.0.1");
    let of_pod = json!([{
        "kind": "Pod", "namespace": namespace, "name": "a", "reason": "UpdateFailed", "message": "m"
    }]);
    world.report("node1", &[], &of_pod);
    world.wait_for_event("Pod", "QoSUpdateFailed");
    for kind in ["BandwidthProfile", "NetworkQoSDefault"] {
        assert_eq!(told(&world, kind).len(), 1, "{kind}");
    }
    assert_eq!(told(&world, "Node"), [""; 0]);
}
