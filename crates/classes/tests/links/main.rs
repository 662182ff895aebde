//! Each class backend divides real uplinks among real pods' traffic.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod contract;
mod kernel;
mod tc;

/// Not a test by itself: another one runs it as a process of a pod on the host's network.
#[test]
#[ignore = "is run by others"]
fn in_a_group() {
    netqos_testkit::classes::in_a_group();
}
