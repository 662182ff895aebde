//! Koordinator's documents about who wins when a node's line is full.
//!
//! ```text
//!   ConfigMap slo-controller-config ──► SloConfig ─┐ for_node(labels, annotations)
//!                                                  ▼
//!   NodeSLO.spec ───────────────────────────────► NodeSlo ── shares(total) ──► core::classes::LineShares
//!
//!   pod annotation koordinator.sh/networkQOS ───► PodNetworkQos ───────┐
//!   pod label koordinator.sh/qosClass ──────────► class::traffic_class ┴► PodClass
//!
//!   /var/run/koordinator/net/{node,pods} ───────► net_files::{parse_node, parse_pods}
//! ```
//!
//! They are read as Koordinator reads them, where that makes sense: names of fields in any case,
//! whole numbers as percentages of the line, texts as quantities in bits per second. Where its own
//! reading is a defect, it is said beside what is done instead.

mod amount;
pub mod class;
mod contradictions;
pub mod net_files;
mod network_qos;
mod node_slo;
mod pod;
mod pod_class;
mod selector;
mod slo_config;
#[cfg(test)]
mod tests;

pub use amount::{Amount, AmountError};
pub use network_qos::{Ask, Mistake, NetworkQos};
pub use node_slo::{BACKEND_LABEL, BackendKind, ClassQos, NodeSlo, NotABackend};
pub use pod::{NETWORK_QOS_ANNOTATION, PodNetworkQos, PortNetworkQos};
pub use pod_class::PodClass;
pub use slo_config::{
    NODE_BANDWIDTH_ANNOTATION, RESOURCE_QOS, SYSTEM, SloConfig, annotated, concerns_network,
};
