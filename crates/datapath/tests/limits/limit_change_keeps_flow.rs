use netqos_testkit::random_changes::run_cases;

use crate::limit_changes::{cases, keeps_flow};

/// The short form has each hook with each congestion control and GSO size once.
#[test]
fn random_limit_change_never_stalls_queue() {
    run_cases(&cases(), 3, 12, keeps_flow);
}
