//! `netqos-controller` as a process, and an API server (see `netqos_faults::Cluster`).

#![allow(clippy::unwrap_used, reason = "a test ends by it")]

mod admission;
mod agents;
mod away;
mod clock;
mod coexistence;
mod events;
mod leading;
mod node_slos;
mod peers;
mod preconditions;
mod readiness;
mod requests;
mod seen;
mod statuses;
mod troubles;
mod unreadable;
mod world;
