//! Rules on real links: pods with policies on a node, and what arrives of their packets.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "a panic is how a test fails"
)]

mod fragments;
pub mod frame;
mod hooks;
pub mod measure;
pub mod proxy;
pub mod state;
mod wire;
mod world;

pub use fragments::Datagram;
pub use hooks::{HOOKS, apart, is_there, on_both_hooks};
pub use wire::Wire;
pub use world::{TCP_SHARE, World, limiting, marking, mbit, policy, rule, to_pod, udp_port};
