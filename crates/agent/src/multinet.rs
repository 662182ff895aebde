//! Answers to `netqos-multinet`, the CNI meta plugin: the networks that a pod selects, their definitions, and the
//! permissions of NetworkAttachmentPolicies.
//!
//! ```text
//!   folder or API server ─► objects ─► NetworkCatalog ◄── server ◄── multinet.sock ◄── netqos-multinet
//! ```
//!
//! The catalog is read and written in place: an answer waits neither for the engine nor for the kernel.

mod catalog;
#[cfg(feature = "daemon")]
mod server;
#[cfg(test)]
mod tests;

pub use catalog::NetworkCatalog;
#[cfg(feature = "daemon")]
pub(crate) use server::serve;
