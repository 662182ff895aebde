use serde_json::json;

use crate::stage;
use crate::world::World;

/// One that got past an older schema, and one that is not of this shape at all.
#[test]
fn neither_when_listed_nor_when_watched() {
    let Some(mut world) = World::new() else {
        return;
    };
    let Some(server) = world.fixture() else {
        return;
    };
    let bad = |name: &str, spec: serde_json::Value| {
        let object = json!({
            "apiVersion": "k8s.ovn.org/v1alpha1", "kind": "NetworkQoS",
            "metadata": {"name": name, "namespace": "games"}, "spec": spec
        });
        let api_version = "k8s.ovn.org/v1alpha1";
        server.put_raw(api_version, "networkqoses", object).unwrap();
    };
    let left_out = |world: &World| {
        let problems = world.problems().into_iter();
        let invalid = problems.filter(|(reason, _)| reason == "Invalid");
        invalid.map(|(_, message)| message).collect::<Vec<_>>()
    };
    bad("listed", json!("none"));
    bad("old", json!({"priority": 200, "egress": [{"dscp": 1}]}));
    let flow = world.marked(10);
    let messages = left_out(&world);
    assert_eq!(messages.len(), 2, "{messages:?}");
    assert!(messages[1].contains("spec.priority"), "{messages:?}");

    let Some(server) = world.fixture() else {
        return;
    };
    let object = json!({
        "apiVersion": "k8s.ovn.org/v1alpha1", "kind": "NetworkQoS",
        "metadata": {"name": "watched", "namespace": "games", "labels": 7}, "spec": []
    });
    let api_version = "k8s.ovn.org/v1alpha1";
    server.put_raw(api_version, "networkqoses", object).unwrap();
    world.mark("p", 20);
    flow.wait_for(20);
    assert!(stage::eventually(|| left_out(&world).len() == 3));
    drop(flow.end());
}
