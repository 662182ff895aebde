//! A cluster's objects, as its API server tells them.
//!
//! ```text
//!   API server ──► watches, one for each kind ──► Seen ──► Batch
//!                                                  │ ▲
//!                             /var/lib/netqos/objects: what was seen last
//! ```
//!
//! Nothing is said before all kinds were heard of: a plan from half of the objects would lift what
//! is in force. Where the server does not answer when the agent starts, what was seen last counts,
//! which outlives a reboot; that is a problem of the node until the server is back. Where it falls
//! silent later, what was told stays.

mod run;
mod saved;
mod seen;
mod trim;

use std::path::PathBuf;

use netqos_cluster::{Connect, Kind, Selection};

pub use run::spawn;

/// The name of this source.
const SOURCE: &str = "cluster";

/// What of a cluster is watched, and how.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// The name of this node.
    pub node: String,
    /// The way to the API server.
    pub connect: Connect,
    /// The folder of what must outlive a reboot, `/var/lib/netqos` on a node.
    pub state: PathBuf,
}

impl ClusterOptions {
    /// What is watched: without a controller, which would say whom selectors mean, that is every
    /// object that a plan may depend on.
    fn selections(&self) -> Vec<Selection> {
        let told_by_netqos = [Kind::NetworkQoSPeerSlice, Kind::NetworkQoSNodeReport];
        let kinds = Kind::ALL.into_iter();
        kinds
            .filter(|kind| !told_by_netqos.contains(kind))
            .map(|kind| match kind {
                Kind::Node => Selection::all(kind).with_field("metadata.name", &self.node),
                _ => Selection::all(kind),
            })
            .collect()
    }
}
