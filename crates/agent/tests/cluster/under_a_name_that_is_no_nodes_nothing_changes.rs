use crate::stage;
use crate::world::{World, readiness};

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
