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
//!   /var/lib/netqos/multinet/pods ─► status ── PATCH pods/status, network-status ──► API server
//! ```
//!
//! The catalog is read and written in place: an answer waits neither for the engine nor for the kernel.

mod catalog;
#[cfg(feature = "daemon")]
mod counts;
#[cfg(feature = "daemon")]
mod devices;
#[cfg(feature = "daemon")]
mod server;
#[cfg(feature = "daemon")]
mod status;
#[cfg(test)]
mod tests;

pub use catalog::NetworkCatalog;
#[cfg(feature = "daemon")]
pub(crate) use counts::MultinetCounts;
#[cfg(feature = "daemon")]
pub(crate) use server::serve;
#[cfg(feature = "daemon")]
pub(crate) use status::write_statuses;
