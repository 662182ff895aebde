//! A cluster's objects, as its API server tells them.
//!
//! ```text
//!   API server ──► watches, one for each kind ──► Seen ──► Batch
//!                                                  │ ▲
//!                             /var/lib/netqos/objects: what was seen last
//! ```
//!
//! Where a controller publishes who is a peer, a node's agent asks for what concerns its own pods:
//!
//! ```text
//!   pods of the node ─► their namespaces ─► policies ─► the sets that they name ─► slices
//!        Seen ──► Gate: what waits for peers ──► Batch      │
//!          ▲                                    Interest ◄──┘
//!          └────────── watches ◄────────────────────┘
//! ```
//!
//! Nothing is said before all kinds were heard of: a plan from half of the objects would lift what
//! is in force. Where the server does not answer when the agent starts, what was seen last counts,
//! which outlives a reboot; that is a problem of the node until the server is back. Where it falls
//! silent later, what was told stays.

mod gate;
mod interest;
mod leader;
mod run;
mod saved;
mod seen;
mod source;
mod trim;
mod watches;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use netqos_cluster::{Connect, Kind, Selection};
use netqos_coexistence::Homes;
use netqos_core::NodeReport;
use netqos_index::PeerSource;
use tokio::sync::watch::Receiver;

pub use run::spawn;

use crate::NetworkCatalog;
use crate::multinet::StatusAnnotations;

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
    /// What the addresses of peers are learned from.
    pub peers: PeerSource,
    /// True where rules of an earlier process are in force on the node, which must not be lifted for
    /// want of knowledge.
    pub has_rules: bool,
    /// What is in force, to be told to the controller. `None`: it is not.
    pub reports: Option<Receiver<NodeReport>>,
    /// The annotations `network-status` of pods, to be written. `None`: they are not.
    pub statuses: Option<Receiver<StatusAnnotations>>,
    /// How often the node report is sent again.
    pub report_refresh: Duration,
    /// Where others live that enforce the same.
    pub homes: Arc<Homes>,
    /// The catalog for who attaches pods to networks.
    pub networks: NetworkCatalog,
}

impl ClusterOptions {
    /// What is watched from the start. Without a controller, which would say whom selectors mean,
    /// that is every object that a plan may depend on; with one, other things follow from it.
    fn selections(&self) -> Vec<Selection> {
        let sliced = matches!(self.peers, PeerSource::Slices { .. });
        let kinds = Kind::ALL.into_iter();
        kinds
            .filter_map(|kind| {
                let all = Selection::all(kind);
                Some(match kind {
                    Kind::Node | Kind::NodeSlo => all.with_field("metadata.name", &self.node),
                    Kind::Pod if sliced => all.with_field("spec.nodeName", &self.node),
                    Kind::NetworkQoS | Kind::Service | Kind::EndpointSlice if sliced => {
                        return None;
                    }
                    Kind::NetworkQoSPeerSlice
                    | Kind::NetworkQoSNodeReport
                    | Kind::NetworkQoSDefault
                    | Kind::ConfigMap => return None,
                    _ => all,
                })
            })
            .collect()
    }
}
