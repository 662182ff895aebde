use std::time::Duration;

use crate::stage::{self, Flow};
use crate::world::{World, readiness};

/// It would have no pods, and all that is in force would go.
#[test]
fn and_it_says_so() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.create_policy("p", 10);
    world.start_agent();
    let flow = Flow::begin(&world.a, &world.b, Duration::from_millis(1));
    flow.wait_for(10);
    world.spawn_agent_of("node7");
    assert!(stage::eventually(|| readiness().contains("no Node node7")));
    let seen = flow.end_after(200);
    assert!(seen.iter().all(|seen| seen.dscp == 10));
    stage::assert_no_loss(&seen);
}
