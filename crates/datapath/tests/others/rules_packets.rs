//! What rules do to all kinds of packets, and what they do not do to them.

mod beside_other_programs;
mod large_datagrams;
mod large_packets_arrive_as_they_were_sent;
mod new_rules_are_switched_in_whole;
mod packets_of_every_kind;
mod sctp_goes_by_its_ports;
mod the_program_decides_as_the_plan_does;

use netqos_api::HookChoice;
use netqos_testkit::rules::World;

/// A node with the pods `a`, which is a player, and `b`, which is a gateway. `None` when the test
/// has to be skipped.
fn two_pods(hook: HookChoice) -> Option<World> {
    let mut world = World::new(hook)?;
    world.pod("a", "player");
    world.pod("b", "gateway");
    Some(world)
}
