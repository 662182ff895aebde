//! The two files under `/var/run/koordinator/net/` by which the proposal lets one agent tell another
//! how a node's line is shared.
//!
//! | file | what it says |
//! |---|---|
//! | `node` | the line and its shares, as one JSON object: [`crate::terway::GlobalBps`] |
//! | `pods` | each pod's cgroup, priority and rules of its flows: a list of JSON objects |
//!
//! All rates in them are **bytes** per second. What the writers here write the readers read back as it
//! was, but for what is no whole byte; and the readers take what the proposal shows as well: a single
//! pod, pods by uid, and one after the other.

mod node;
mod pods;
mod rules;
#[cfg(test)]
mod tests;

pub use node::{node_json, parse_node};
pub use pods::{NetPod, parse_pods, pods_json};
