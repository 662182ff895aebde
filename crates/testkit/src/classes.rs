//! Uplinks that class backends divide: pods that load one, and a place for each backend to work in.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod counted;
mod group;
pub mod plans;
pub mod tc;
mod world;
pub mod worlds;

pub use world::{
    BE, LS, SHORT, SYSTEM, World, classed, divided, in_a_group, mbit, on_each_hook, options,
    payload, served_at, shares,
};
