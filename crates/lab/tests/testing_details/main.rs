//! The "Testing Details" of the proposal (OKEP-4380), bullet by bullet, for IPv4 and IPv6: pods made
//! by real CNI plugins, the real agent, NetworkQoS objects created and deleted while it runs.
//!
//! | | DSCP | bandwidth |
//! |---|---|---|
//! | destination pods | `marks_to_pods` | `bandwidth_to_pods` |
//! | host-networked destinations, by CIDR | `marks_to_cidrs` | `bandwidth_to_cidrs` |
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a panic is how a test fails"
)]
#![forbid(unsafe_code)]

mod bandwidth;
mod bandwidth_to_cidrs;
mod bandwidth_to_pods;
mod eyes;
mod marks;
mod marks_to_cidrs;
mod marks_to_pods;
mod stage;
mod the_agent_goes_with_the_lab;
