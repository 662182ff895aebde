//! The truth about a `NetworkQoS`: whether it is accepted, and on how many of the nodes that its pods
//! are on it is in force.
//!
//! ```text
//!   the object: generation, what is wrong with it ──┐
//!   PeerIndex: subjects (pods, nodes, quotas) ──────┼─► Verdict ──► NetworkQosStatus, when it differs
//!   reports of nodes: generations, problems ────────┘      └──────► what is new, for an event
//! ```
//!
//! A policy is in force on a node when the node's report names this generation of it or a later one,
//! and no problem that keeps it, or a pod that it selects, from that. What a node has not said is not
//! taken for granted, and neither is it taken for a failure: then the policy is pending there.
//!
//! An agent that dies takes nothing out of force, so what was said stays true; of what is new since, a
//! generation or a pod, it is not, and where somebody takes everything away, of nothing.
//!
//! The text in `status.status` is that which OVN-Kubernetes writes.
//!
//! No I/O, no clocks.
#![forbid(unsafe_code)]

mod conditions;
mod verdict;

pub use conditions::{Difference, Remark, difference, remarks, status};
pub use verdict::{Agent, Facts, Finding, Verdict, Zone};
