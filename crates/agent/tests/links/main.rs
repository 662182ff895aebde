//! What pods' connections get of a divided line, measured.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a panic is how a test fails"
)]
#![forbid(unsafe_code)]

mod shares_of_a_cluster;
mod shares_of_a_folder;

use netqos_testkit::agent::{config_map, stage, world};
