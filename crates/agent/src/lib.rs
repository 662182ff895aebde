//! Keeps a node as the objects say.
//!
//! ```text
//!   folder of manifests, ─► source ─┐ Batch: changes, problems           ┌─► rules (eBPF)
//!   or API server                   ├──────────────► engine: index ──────┤
//!   CNI result cache ────► locator ─┤                  │  ▲   plan, delta └─► limits (tc)
//!   cgroups of pods ─────► cgroups ─┤                  │  │
//!   Koordinator's files ► net files ┤                  ▼  │ Look
//!   rtnetlink ───────────► links ───┘                  │  │
//!   /metrics /readyz /debug/state  ◄── server ◄── what was seen
//! ```
//!
//! What of it is about the node's lines, and who shares them, is in [`classes`].
//!
//! A source is a thread that sends [`Batch`]es of changes; whether they come from a folder or from a
//! cluster makes no difference to the rest. The engine is one thread too: it alone changes the kernel. What is to be
//! seen of it is what somebody takes with him who looks at it ([`Look`]) between two changes, and
//! served by a runtime that the data plane never waits for.
//!
//! Without the feature `daemon` there is what a command line needs: [`Folder`], [`Status`], and
//! [`client`], which asks a running agent.
#![forbid(unsafe_code)]

#[cfg(feature = "daemon")]
mod cgroups;
pub mod classes;
pub mod client;
#[cfg(feature = "daemon")]
mod engine;
mod error;
mod event;
mod file;
#[cfg(feature = "daemon")]
mod link_counts;
#[cfg(feature = "daemon")]
mod links;
mod locate;
pub mod multinet;
#[cfg(feature = "daemon")]
mod neighbours;
#[cfg(feature = "daemon")]
mod net_files;
#[cfg(feature = "daemon")]
mod node_report;
pub mod places;
#[cfg(feature = "daemon")]
mod server;
mod source;
mod status;
#[cfg(feature = "daemon")]
mod watch;

#[cfg(feature = "daemon")]
pub use engine::{ClassOptions, Engine, Options};
pub use error::{Error, Result};
pub use event::Batch;
#[cfg(feature = "daemon")]
pub use event::{Event, Look};
pub use locate::Locator;
pub use multinet::NetworkCatalog;
pub use netqos_daemon::Check;
#[cfg(feature = "daemon")]
pub use netqos_daemon::{LogArguments, Logs};
pub use places::{Lock, agent_lock, has_rules, socket_path};
#[cfg(feature = "daemon")]
pub use server::{Bound, Listen, Seen, metrics_sample, serve};
pub use source::Folder;
pub use status::{
    AttachmentStatus, ClassStatus, Counts, DirectionStatus, LimitStatus, LineStatus, LinkStatus,
    PartStatus, PodStatus, ProblemStatus, Reconciled, RuleStatus, ShareStatus, Status,
};
#[cfg(feature = "daemon")]
pub use {
    cgroups::{CgroupOptions, spawn as watch_cgroups},
    links::spawn as watch_links,
    locate::spawn as watch_attachments,
    multinet::write_pod_files,
    net_files::{NetFileOptions, spawn as watch_net_files},
    source::{ClusterOptions, spawn as watch_manifests, spawn_cluster as watch_cluster},
};
