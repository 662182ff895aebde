use std::fs;

use netqos_datapath::Paths;
use netqos_datapath::rules::remove_all;
use serde_json::{Value, json};

use super::stage;
use super::world::{World, has_written};

const VERSION: &str = "k8s.ovn.org/v1alpha1";

/// What is said of objects that are left out.
fn left_out(world: &World) -> Vec<String> {
    let problems = world.problems().into_iter();
    let invalid = problems.filter(|(reason, _)| reason == "Invalid");
    invalid.map(|(_, message)| message).collect()
}

/// One that got past an older schema, and one that is not of this shape at all.
#[test]
fn neither_when_listed_nor_when_watched() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.define_policies_of_any_shape();
    let bad = |world: &World, name: &str, spec: Value| {
        let object = json!({"metadata": {"name": name, "namespace": "games"}, "spec": spec});
        world.create(VERSION, "NetworkQoS", "games", object);
    };
    bad(&world, "listed", json!("none"));
    let old = json!({"priority": 200, "egress": [{"dscp": 1}]});
    bad(&world, "old", old);
    let flow = world.marked(10);
    let messages = left_out(&world);
    assert_eq!(messages.len(), 2, "{messages:?}");
    assert!(messages[1].contains("spec.priority"), "{messages:?}");

    bad(&world, "watched", json!([]));
    world.mark("p", 20);
    flow.wait_for_after(10, 20);
    assert!(stage::eventually(|| left_out(&world).len() == 3));
    drop(flow.end());
}

/// Not even what is of every object.
#[test]
fn nor_where_its_metadata_are_none() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.front.rewrite(r#"{"is":"spoiled"}"#, "7");
    let bad = |world: &World, name: &str| {
        let labels = json!({"is": "spoiled"});
        let metadata = json!({"name": name, "namespace": "games", "labels": labels});
        let object = json!({"metadata": metadata, "spec": marks(1)});
        world.create(VERSION, "NetworkQoS", "games", object);
    };
    bad(&world, "listed");
    let flow = world.marked(10);
    assert_eq!(left_out(&world).len(), 1);
    bad(&world, "watched");
    world.mark("p", 20);
    flow.wait_for_after(10, 20);
    assert!(stage::eventually(|| left_out(&world).len() == 2));
    drop(flow.end());
}

/// The policy `p`, which is there, is such from now on.
fn spoil(world: &World, spec: &Value) {
    world.patch(VERSION, "NetworkQoS", "p", &json!({"spec": spec}));
}

fn marks(dscp: u8) -> Value {
    json!({
        "priority": 1, "podSelector": {"matchLabels": {"app": "a"}}, "egress": [{"dscp": dscp}]
    })
}

fn is_told(world: &World) -> bool {
    let problems = world.problems();
    problems.iter().any(|(reason, message)| {
        reason == "Invalid"
            && message.contains("NetworkQoS games/p is in force as it was before")
            && message.contains("spec.egress[0].dscp")
    })
}

/// Neither while it runs, nor over a restart, nor after a reboot: it is in force until it can be read,
/// or is gone.
#[test]
fn and_what_it_said_before_stays_in_force_until_it_can_be_read_again() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.define_policies_of_any_shape();
    let flow = world.marked(10);
    assert!(stage::eventually(|| has_written(
        "networkqoses",
        "\"dscp\":10"
    )));
    spoil(&world, &marks(64));
    assert!(
        stage::eventually(|| is_told(&world)),
        "{:?}",
        world.problems()
    );
    // Another one is told of after it, and so this one was heard of.
    world.create_policy("q", 10);
    let seen = flow.end_after(1_000);
    assert!(seen.iter().all(|seen| seen.dscp == 10), "{seen:?}");
    stage::assert_no_loss(&seen);

    // A new process is told of nothing else, and goes by what was written down.
    let flow = world.flow();
    world.start_agent();
    assert!(
        stage::eventually(|| is_told(&world)),
        "{:?}",
        world.problems()
    );
    let seen = flow.end_after(1_000);
    assert!(seen.iter().all(|seen| seen.dscp == 10), "{seen:?}");
    stage::assert_no_loss(&seen);
    world.delete(VERSION, "NetworkQoS", "q");
    world.stop_agent();
    remove_all(&Paths::from_variables(|_| None)).unwrap();
    fs::remove_dir_all("/run/netqos").unwrap();
    let flow = world.flow();
    flow.wait_for(0);
    world.start_agent();
    flow.wait_for_after(0, 10);

    spoil(&world, &marks(20));
    flow.wait_for_after(10, 20);
    assert!(stage::eventually(|| !is_told(&world)));
    // Gone it is gone, however it was.
    spoil(&world, &json!("none"));
    world.delete(VERSION, "NetworkQoS", "p");
    flow.wait_for_after(20, 0);
    drop(flow.end());
}
