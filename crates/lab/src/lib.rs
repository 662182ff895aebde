//! The lab: pods as network namespaces, made by real CNI plugins from ordinary Kubernetes YAML, and
//! measured.
//!
//! ```text
//!   folder ─► manifest::Manifests ─► node::Plan ── kubelet, runtime, plugins ──► Node, pods
//!              Pods, Scenario,        │                                            │
//!              one conflist           ▼                                            ▼
//!              objects               │  netqos-agent ◄── objects, pods ──────────┤
//!                                   Record (/run/netqos/lab/<run>)        measure ─► expectation
//!                                     │                                            │
//!                                   teardown ◄── end, error, panic, signal,        ▼
//!                                                `lab down`                      Report
//! ```
//!
//! Everything that is made is written down before; one [`down`] takes it away, whoever made it and
//! however that ended. A node is a network namespace, too, in which the plugins run: nothing of the
//! host's own network is touched. The meters are `netqos-traffic`'s, on threads inside of the pods'
//! namespaces.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::print_stdout,
        clippy::print_stderr,
        reason = "the macros of std panic on a closed pipe and on a full disk"
    )
)]

mod agent;
mod attempts;
mod change;
mod down;
mod error;
mod expectation;
pub mod manifest;
mod measure;
mod netns;
mod network;
mod node;
mod plugins;
mod process;
mod progress;
mod record;
pub mod report;
mod run;
mod standing;
mod teardown;

pub use agent::AGENT;
pub use down::{Listed, Which, down, list};
pub use error::{Blame, LabError};
pub use plugins::PLUGIN_PATH;
pub use process::Process;
pub use progress::Progress;
pub use report::Report;
pub use run::{Options, run};
