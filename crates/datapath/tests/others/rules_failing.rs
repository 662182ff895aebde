//! What cannot be put in force: the rules of before stay, it is reported until it is mended, and
//! others are not held up by it.

mod a_full_table_stops_only_who_needs_it;
mod an_interface_that_is_lost_keeps_its_rules;

use netqos_core::{EndpointId, ObjectRef, Reason};
use netqos_datapath::rules::Outcome;
use netqos_testkit::rules::World;

/// Which endpoint a pod has.
fn endpoint(world: &World, pod: &str) -> EndpointId {
    let mut endpoints = world.index.plan().endpoints.iter();
    let found = endpoints.find(|(_, endpoint)| &*endpoint.pod.name.name == pod);
    found.unwrap().0.clone()
}

fn reasons(outcome: &Outcome) -> Vec<(&ObjectRef, Reason)> {
    let problems = outcome.problems.iter();
    problems
        .map(|problem| (&problem.object, problem.reason))
        .collect()
}
