//! What Kubernetes says, in the words of `netqos-core`.
//!
//! ```text
//!   API server ──► typed objects ─────────────┐
//!                                             ▼
//!   manifests ──► objects_from_yaml ──► convert::{policy, pod, network, service, …} ──► core
//!                     │
//!                     └─ structural: types, limits, unknown fields ┐
//!   netqos validate ──► validate ─────────────────────────────────┴─ and CEL, as a server would
//!                                             ▲
//!   NetworkQoS (Rust types, kube derive) ──► crd() ──► deploy/crds, by `cargo xtask crds`
//!
//!   core::PeerSlice ◄─► NetworkQoSPeerSlice: what the controller tells agents of peers
//!   core::NodeReport ◄─► NetworkQoSNodeReport: what agents tell the controller of their nodes
//!   NodeSLO: Koordinator's; its spec is read and written by netqos_api::koordinator
//! ```
//!
//! [`NetworkQoS`] is one resource for two spellings: that of the enhancement proposal okep-4380
//! (`netAttachRefs`, `classifier.port`), and that of OVN-Kubernetes (`networkSelectors`,
//! `classifier.ports`). Its schema and its CEL rules are written once, on the Rust types; the file
//! that an API server gets, and what [`validate`] checks without one, come from there.
//!
//! A conversion answers with the path of the field that it cannot read, and obeys every limit of
//! the schema and of the CEL rules by itself: not everything that it is given has passed a server.
//!
//! No I/O.
#![forbid(unsafe_code)]

mod attachment_policy;
pub mod check;
pub mod convert;
mod crd;
mod default_policy;
mod document;
mod field;
mod kinds;
mod network_qos;
mod node_report;
mod node_slo;
mod object;
mod openapi;
mod own;
mod peer_slice;
mod profile;
mod quota;
#[cfg(feature = "validate")]
mod resource_schema;
mod schema;
mod structural;
#[cfg(feature = "validate")]
mod validate;

pub use attachment_policy::{NetworkAttachmentPolicy, NetworkAttachmentPolicySpec};
pub use crd::{Definition, crd, definitions, node_slo_definition};
pub use default_policy::{
    DEFAULT_LABEL, NetworkQoSDefault, NetworkQosDefaultSpec, NetworkQosTemplate, TemplateMetadata,
};
pub use document::{Document, DocumentPlace, documents, list_items};
pub use field::FieldError;
pub use kinds::lacks_namespace;
pub use network_qos::{
    Bandwidth, Classifier, ClusterNetworkSelector, Destination, EgressRule, IpBlock,
    MODE_ANNOTATION, NamespacedNetworkSelector, NetworkAttachmentRef, NetworkQoS, NetworkQosSpec,
    NetworkQosStatus, NetworkSelector, Port, PrimaryNetworkSelector,
};
pub use node_report::{NetworkQoSNodeReport, NodeProblem, PolicyInForce};
pub use node_slo::{NodeSLO, NodeSloSpec};
pub use object::{
    DocumentError, Object, object_from_value, objects_from_yaml, placed_objects_from_yaml,
};
pub use peer_slice::{NetworkQoSPeerSlice, PEER_SET_LABEL};
pub use profile::{BandwidthProfile, BandwidthProfileSpec, DirectionLimit, WrittenQuantity};
pub use quota::{NetworkQoSQuota, NetworkQosQuotaSpec, PriorityBounds};
#[cfg(feature = "validate")]
pub use resource_schema::ResourceSchema;
pub use structural::check_structure;
#[cfg(feature = "validate")]
pub use validate::{validate, validate_update};
