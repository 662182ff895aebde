use serde_json::json;

use super::stage;
use super::world::{World, has_written, readiness};

/// It would have no pods, and all that is in force would go.
#[test]
fn and_it_says_so() {
    let Some(mut world) = World::new() else {
        return;
    };
    let flow = world.marked(10);
    world.spawn_agent_of("node7");
    assert!(stage::eventually(|| readiness().contains("no Node node7")));
    // Longer than it waits before it goes by what the agent before it wrote down: one datagram is
    // sent in a millisecond.
    let seen = flow.end_after(5_000);
    assert!(readiness().contains("no Node node7"), "{}", readiness());
    assert!(seen.iter().all(|seen| seen.dscp == 10));
    stage::assert_no_loss(&seen);
}

/// The machine was renamed, and the cluster knows it by the new name: pods of the old one are none of
/// its, and neither is what was written down for it.
#[test]
fn under_another_nodes_name_what_was_of_the_first_goes_and_is_not_remembered() {
    let Some(mut world) = World::new() else {
        return;
    };
    let node2 = json!({"metadata": {"name": "node2"}});
    world.create("v1", "Node", "", node2);
    let flow = world.marked(10);
    assert!(stage::eventually(|| has_written(
        "networkqoses",
        "\"dscp\":10"
    )));
    // It cannot know yet: what was written down says nothing of node2, and nothing is taken away.
    world.front.go_away().unwrap();
    world.spawn_agent_of("node2");
    assert!(stage::eventually(
        || readiness().contains("cannot be listed")
    ));
    // Longer than it waits before it goes by what it remembers.
    let seen = flow.end_after(4_000);
    assert!(readiness().contains("cannot be listed"), "{}", readiness());
    assert!(seen.iter().all(|seen| seen.dscp == 10));
    stage::assert_no_loss(&seen);

    let flow = world.flow();
    world.front.come_back().unwrap();
    flow.wait_for(0);
    assert!(stage::eventually(|| has_written("nodes", "node2")));
    drop(flow.end());
    // And back.
    world.spawn_agent_of("node1");
    let flow = world.flow();
    flow.wait_for(10);
    drop(flow.end());
}
