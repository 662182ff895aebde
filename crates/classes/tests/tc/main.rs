//! The backend of the proposal divides lines among real pods' traffic.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod divided;
mod in_the_way;
mod order_of_changes;
mod pods_are_known;
mod shares_take_effect;
mod what_it_does_not_do_is_said;
#[path = "../kernel/world.rs"]
#[allow(dead_code, reason = "others use more of it")]
mod world;
