//! Answers to `netqos-multinet`, the CNI meta plugin: the networks that a pod selects, their definitions, and the
//! permissions of NetworkAttachmentPolicies.
//!
//! ```text
//!   folder or API server ─► objects ─► NetworkCatalog ◄── server ◄── multinet.sock ◄── netqos-multinet
//! ```
//!
//! What the plugin has made is written to the pods:
//!
//! ```text
//!   /var/lib/netqos/multinet/pods ─► locator ─► status ── PATCH pods/status, network-status ──► API server
//! ```
//!
//! For runtimes that pass no annotations, the networks that pods select are in files:
//!
//! ```text
//!   NetworkCatalog ─► pod_files ─► /run/netqos/multinet-pods ─► netqos-multinet
//! ```
//!
//! The catalog is read and written in place: an answer waits neither for the engine nor for the kernel.

mod catalog;
#[cfg(feature = "daemon")]
mod confirm;
#[cfg(feature = "daemon")]
mod counts;
#[cfg(feature = "daemon")]
mod devices;
mod list;
#[cfg(feature = "daemon")]
mod pod_files;
#[cfg(feature = "daemon")]
mod records;
#[cfg(feature = "daemon")]
mod server;
#[cfg(feature = "daemon")]
mod status;
mod statuses;
#[cfg(test)]
mod tests;

pub use catalog::NetworkCatalog;
#[cfg(feature = "daemon")]
pub(crate) use counts::MultinetCounts;
pub use list::{
    DEFAULT_NETWORK, LIST, LIST_DIRECTORY, ListError, PLUGIN, WrittenList, bare_plugin,
    calls_plugin, install_command, list_with, lock, read_list, unfinished_list, write_list,
};
#[cfg(feature = "daemon")]
pub use pod_files::spawn as write_pod_files;
#[cfg(feature = "daemon")]
pub(crate) use records::{AttachmentCounts, attachments, count_attachments};
#[cfg(feature = "daemon")]
pub(crate) use server::serve;
#[cfg(feature = "daemon")]
pub(crate) use status::write_statuses;
pub use statuses::{StatusAnnotation, StatusAnnotations};
