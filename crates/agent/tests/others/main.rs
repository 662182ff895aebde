//! The agent as it is: a process, by itself on a node and on a cluster.
#![allow(clippy::unwrap_used, clippy::expect_used)]
#![forbid(unsafe_code)]

mod agent;
mod cluster;
