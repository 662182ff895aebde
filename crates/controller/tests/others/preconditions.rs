//! Preconditions of an apply at the API server: they make a late write harmless.

use netqos_cluster::{ObjectVersion, is_outdated, require_absent};
use serde_json::{Value, json};

use crate::world::World;

const NODE_SLO: (&str, &str, &str) = ("slo.koordinator.sh/v1alpha1", "NodeSLO", "");

/// The object that is applied, with a field that differs each time.
fn applied(total: &str) -> Value {
    json!({
        "apiVersion": NODE_SLO.0, "kind": NODE_SLO.1, "metadata": {"name": "node1"},
        "spec": {"systemStrategy": {"totalNetworkBandwidth": total}},
    })
}

#[test]
fn apply_with_preconditions_creates_or_changes_only_the_known_state() {
    let world = World::new();
    world.define_node_slo();
    let refused = |object: &Value| match world.apply(NODE_SLO, "node1", "netqos", object) {
        Err(kube::Error::Api(status)) => is_outdated(&status),
        Err(error) => panic!("{error}"),
        Ok(_) => false,
    };
    let version = || {
        let object = world.get(NODE_SLO, "node1").unwrap();
        let metadata = serde_json::from_value(object["metadata"].clone()).unwrap();
        ObjectVersion::of(&metadata)
    };
    let mut creation = applied("1G");
    require_absent(&mut creation["metadata"]);
    assert!(!refused(&creation), "no object exists");
    let created = version();
    let mut again = applied("2G");
    require_absent(&mut again["metadata"]);
    assert!(refused(&again), "the object exists");

    let at = |version: &ObjectVersion, total: &str| {
        let mut object = applied(total);
        version.require_in(&mut object["metadata"]);
        object
    };
    assert!(!refused(&at(&created, "3G")));
    assert!(refused(&at(&created, "4G")), "it was written since");
    let now = world.get(NODE_SLO, "node1").unwrap();
    assert_eq!(now["spec"]["systemStrategy"]["totalNetworkBandwidth"], "3G");
    // Each apply owns what it sets, the creating one included.
    let managed = now["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(managed.len(), 1, "{managed:?}");
    assert_eq!(managed[0]["operation"], "Apply");

    let last = version();
    world.delete(NODE_SLO, "node1");
    assert!(refused(&at(&last, "5G")), "it was deleted since");
    assert!(world.get(NODE_SLO, "node1").is_none());
    let mut anew = applied("6G");
    require_absent(&mut anew["metadata"]);
    assert!(!refused(&anew));
    assert!(refused(&at(&last, "7G")), "it is another object");
}
