//! Divides a node's lines among classes of pods.
//!
//! ```text
//!   ClassPlan ──► ClassBackend ─┬─ kernel      HTB on each line and on its ifb, chosen by a program
//!                               ├─ tc          HTB, ipsets and iptables by the proposal's names
//!                               ├─ terway-qos  files that terway-qos reads
//!                               └─ none        nothing, and what there was is gone
//! ```
//!
//! Which one is chosen by name ([`BackendKind`]); all of them keep the contract of
//! [`ClassBackend`], which a test suite of its own holds every one of them to.
#![forbid(unsafe_code)]

mod backend;
mod error;
mod kernel;
mod lower;
mod net_cls;
mod none;
mod rate;
pub mod tc;
pub mod terway;
mod traffic;

pub use backend::{ClassBackend, Outcome, StalledQueue, Standing, Trouble};
pub use error::{Error, Result};
pub use kernel::{Kernel, KernelOptions, Tunnels, is_lines_ifb, uplink_of_ifb};
pub use netqos_api::koordinator::BackendKind;
pub use netqos_bpf::classes::TunnelKind;
pub use none::Nobody;
pub use tc::Tc;
pub use terway::TerwayQos;
pub use traffic::{Counted, Traffic};
