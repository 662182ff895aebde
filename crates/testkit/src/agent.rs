//! Agents on a node and on a cluster, and eyes on the wire.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

pub mod config_map;
pub mod controller;
pub mod stage;
pub mod world;
