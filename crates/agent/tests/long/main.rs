//! What an agent takes, and how soon changes take effect: measured.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a panic is how a test fails"
)]
#![forbid(unsafe_code)]

mod a_change_of_the_cluster_takes_effect_within_100_ms;
mod a_change_of_the_folder_takes_effect_within_100_ms;
mod a_sandbox_is_limited_within_a_second_of_its_object;
mod dead_connection;
mod ingress_limits_hold;
mod it_stays_small;

use netqos_testkit::agent::{controller, stage, world};
