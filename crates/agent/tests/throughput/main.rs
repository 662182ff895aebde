//! What pods' connections get of a divided line, measured: no test that loads a link runs beside these.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a panic is how a test fails"
)]
#![forbid(unsafe_code)]

mod config_map;
#[path = "../cluster/controller.rs"]
#[allow(dead_code, reason = "others need more of it")]
mod controller;
#[path = "../cluster/controller_process.rs"]
#[allow(dead_code, reason = "others need more of it")]
mod controller_process;
#[path = "../agent/stage.rs"]
#[allow(dead_code, reason = "others need more of it")]
mod stage;
#[path = "../cluster/world.rs"]
#[allow(dead_code, reason = "others need more of it")]
mod world;

mod shares_of_a_cluster;
mod shares_of_a_folder;
