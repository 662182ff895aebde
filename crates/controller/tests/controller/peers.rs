//! Who is a peer, as it is published.

use serde_json::json;

use crate::world::{HOME, World};

#[test]
fn a_set_is_published_and_follows_its_pods() {
    let world = World::new();
    world.create_pod("a", "web", "node1", "10.0.0.1");
    world.create_policy("p", "web", "db");
    world.create_policy("q", "other", "db");
    world.create_pod("b", "db", "node1", "10.0.0.2");
    let _replica = world.replica("one");
    // One set, however many name it.
    world.wait_for_peers(&[&["10.0.0.2"]]);
    world.create_pod("c", "db", "node2", "10.0.0.3");
    world.wait_for_peers(&[&["10.0.0.2", "10.0.0.3"]]);
    let labels = json!({"metadata": {"labels": {"app": "web"}}});
    world.merge(("v1", "Pod", &world.namespace), "b", &labels);
    world.wait_for_peers(&[&["10.0.0.3"]]);
    world.create_policy("r", "db", "web");
    world.wait_for_peers(&[&["10.0.0.1", "10.0.0.2"], &["10.0.0.3"]]);
    for policy in ["p", "q", "r"] {
        world.delete(world.policies(), policy);
    }
    world.wait_for_peers(&[]);
}

/// Whoever may write in one namespace must not decide who is a peer in another.
#[test]
fn a_set_of_several_namespaces_is_published_in_the_controllers() {
    let world = World::new();
    world.create_pod("a", "web", "node1", "10.0.0.1");
    let (api_version, kind, namespace) = world.policies();
    let name = json!({"kubernetes.io/metadata.name": world.namespace});
    world.create(
        api_version,
        kind,
        namespace,
        json!({
            "metadata": {"name": "p"},
            "spec": {"priority": 1, "podSelector": {}, "egress": [{"dscp": 1, "classifier": {
                "to": [{"namespaceSelector": {"matchLabels": name}}]
            }}]}
        }),
    );
    let _replica = world.replica("one");
    world.wait_for_peers(&[&["10.0.0.1"]]);
    let slices = world.slices();
    assert_eq!(slices[0].metadata.namespace.as_deref(), Some(HOME));
}

#[test]
fn what_others_write_is_put_right() {
    let world = World::new();
    world.create_pod("b", "db", "node1", "10.0.0.2");
    world.create_policy("p", "web", "db");
    let _replica = world.replica("one");
    world.wait_for_peers(&[&["10.0.0.2"]]);
    let name = world.slices()[0].metadata.name.clone().unwrap();
    let slices = (
        "netqos.io/v1alpha1",
        "NetworkQoSPeerSlice",
        world.namespace.as_str(),
    );
    world.merge(slices, &name, &json!({"addresses": ["10.9.9.9"]}));
    world.wait_for_peers(&[&["10.0.0.2"]]);
    world.delete(slices, &name);
    world.wait_for_peers(&[&["10.0.0.2"]]);
    // One of no set at all.
    world.create(
        slices.0,
        slices.1,
        slices.2,
        json!({
            "metadata": {
                "name": "peers-0473ef2dc0d324ab-0",
                "labels": {"netqos.io/peer-set": "0473ef2dc0d324ab"}
            },
            "network": "default", "addresses": ["10.9.9.9"]
        }),
    );
    world.wait_for_peers(&[&["10.0.0.2"]]);
    assert_eq!(world.slices().len(), 1);
}
