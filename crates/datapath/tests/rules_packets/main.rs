//! What rules do to all kinds of packets, and what they do not do to them.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "../../../index/tests/index/arbitrary.rs"]
#[allow(dead_code, reason = "the index's tests need more of it")]
mod arbitrary;
mod beside_other_programs;
mod frame;
#[path = "../rules/hooks.rs"]
mod hooks;
mod large_packets_arrive_as_they_were_sent;
mod new_rules_are_switched_in_whole;
#[path = "../../../index/tests/index/objects.rs"]
#[allow(dead_code, reason = "the index's tests need more of it")]
mod objects;
mod packets_of_every_kind;
mod sctp_goes_by_its_ports;
mod the_program_decides_as_the_plan_does;
mod wire;
#[path = "../rules/world.rs"]
mod world;

use netqos_api::HookChoice;

use world::World;

/// A node with the pods `a`, which is a player, and `b`, which is a gateway. `None` when the test
/// has to be skipped.
fn two_pods(hook: HookChoice) -> Option<World> {
    let mut world = World::new(hook)?;
    world.pod("a", "player");
    world.pod("b", "gateway");
    Some(world)
}
