//! Networks beside the default one.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use netqos_core::objects::{ClusterNetwork, NetworkDefinition};
use serde_json::Value;

use super::{labels, metadata, namespaced};
use crate::FieldError;

/// The kind whose objects own a definition in each of their namespaces.
const CLUSTER_NETWORK: &str = "ClusterUserDefinedNetwork";
/// The CNI plugin of OVN-Kubernetes' networks.
const OVN_PLUGIN: &str = "ovn-k8s-cni-overlay";

/// A `NetworkAttachmentDefinition` (k8s.cni.cncf.io/v1): its metadata, and `spec.config`, which may
/// be absent (then the CNI configuration is a file on the node, of the definition's name).
///
/// # Errors
/// It has no name, or its configuration is no JSON object with a `name` that is a text.
pub fn network_definition(
    metadata: &ObjectMeta,
    config: Option<&str>,
) -> Result<NetworkDefinition, FieldError> {
    let name = namespaced(metadata)?;
    let wrong = |message: String| FieldError::new("spec.config", message);
    let mut is_of_ovn = false;
    let cni_name = match config.map(str::trim).filter(|config| !config.is_empty()) {
        None => None,
        Some(config) => {
            let config: Value = serde_json::from_str(config)
                .map_err(|error| wrong(format!("not a CNI configuration in JSON: {error}")))?;
            is_of_ovn = config.get("type").and_then(Value::as_str) == Some(OVN_PLUGIN);
            match (&config, config.get("name")) {
                (Value::Object(_), None) => None,
                (Value::Object(_), Some(Value::String(name))) if name.is_empty() => None,
                (Value::Object(_), Some(Value::String(name))) => Some(name.as_str().into()),
                (Value::Object(_), Some(other)) => {
                    return Err(wrong(format!("name is a text, not {other}")));
                }
                _ => return Err(wrong("not a JSON object".to_owned())),
            }
        }
    };
    Ok(NetworkDefinition {
        labels: labels(metadata),
        cni_name: cni_name.unwrap_or_else(|| name.name.clone()),
        cluster_network: owner(metadata),
        is_of_ovn,
        name,
    })
}

/// A `UserDefinedNetwork` (k8s.ovn.org/v1), for which OVN-Kubernetes makes a definition of the same
/// name, with a CNI network `namespace_name`.
///
/// # Errors
/// It has no name.
pub fn user_defined_network(metadata: &ObjectMeta) -> Result<NetworkDefinition, FieldError> {
    let name = namespaced(metadata)?;
    Ok(NetworkDefinition {
        labels: labels(metadata),
        cni_name: format!("{}_{}", name.namespace, name.name).into(),
        cluster_network: None,
        is_of_ovn: true,
        name,
    })
}

/// A `ClusterUserDefinedNetwork` (k8s.ovn.org/v1).
///
/// # Errors
/// It has no name.
pub fn cluster_network(metadata: &ObjectMeta) -> Result<ClusterNetwork, FieldError> {
    Ok(ClusterNetwork {
        name: metadata::name(metadata)?,
        labels: labels(metadata),
    })
}

fn owner(metadata: &ObjectMeta) -> Option<Arc<str>> {
    let mut owners = metadata.owner_references.iter().flatten();
    owners
        .find(|owner| owner.kind == CLUSTER_NETWORK)
        .map(|owner| owner.name.as_str().into())
}
