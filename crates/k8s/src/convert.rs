//! Kubernetes objects into the types of `netqos-core`.
//!
//! Each function is given the object as a server or a manifest has it, and answers with what
//! decides, or with the first field that it cannot read. A pod is never left out for an annotation:
//! what is wrong there comes back beside it, as problems.

mod attachment_policy;
mod ip_block;
mod metadata;
mod mode;
mod network;
mod node;
mod node_report;
mod peer_slice;
mod pod;
mod policy;
mod profile;
mod quota;
mod selector;
mod service;
mod slo;

pub use attachment_policy::attachment_policy;
pub use mode::Modes;
pub use network::{
    ClusterNetworkSpec, UserNetworkSpec, cluster_network, network_definition, user_defined_network,
};
pub use node::node;
pub use node_report::node_report;
pub use peer_slice::peer_slice;
pub use pod::pod;
pub use policy::policy;
pub use profile::profile;
pub use quota::quota;
pub use selector::label_selector;
pub use service::{endpoint_slice, service};
pub use slo::{node_slo, slo_config};

pub(crate) use metadata::{labels, namespaced};

use netqos_core::objects::Namespace;

use crate::FieldError;

/// A `Namespace`. The label `kubernetes.io/metadata.name`, which a server gives to each, is there
/// also where a manifest leaves it out.
///
/// # Errors
/// It has no name.
pub fn namespace(object: &k8s_openapi::api::core::v1::Namespace) -> Result<Namespace, FieldError> {
    let name = metadata::name(&object.metadata)?;
    let mut labels = labels(&object.metadata);
    labels.insert("kubernetes.io/metadata.name".into(), name.clone());
    Ok(Namespace { name, labels })
}
