//! A cluster's objects, as its API server tells them.
//!
//! ```text
//!   API server ──► watches, one for each kind ──► Seen ──► Batch
//!                                                  │ ▲
//!                             /var/lib/netqos/objects: what was seen last
//! ```
//!
//! The controller publishes the peers of rules in slices. An agent watches the objects that concern the pods of its
//! node:
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
    /// The namespace of the controller, with the slices of sets of several namespaces.
    pub controller: Arc<str>,
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
    /// The watches from the start, from which further ones follow.
    fn selections(&self) -> Vec<Selection> {
        let kinds = Kind::ALL.into_iter();
        kinds
            .filter_map(|kind| {
                let all = Selection::all(kind);
                Some(match kind {
                    Kind::Node | Kind::NodeSlo => all.with_field("metadata.name", &self.node),
                    Kind::Pod => all.with_field("spec.nodeName", &self.node),
                    Kind::NetworkQoS
                    | Kind::Service
                    | Kind::EndpointSlice
                    | Kind::NetworkQoSPeerSlice
                    | Kind::NetworkQoSNodeReport
                    | Kind::NetworkQoSDefault
                    | Kind::ConfigMap => return None,
                    _ => all,
                })
            })
            .collect()
    }
}
