//! Nodes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use netqos_api::koordinator::NODE_BANDWIDTH_ANNOTATION;
use netqos_core::objects::Node;

use super::labels;
use super::metadata::name;
use crate::FieldError;

/// A `Node`.
///
/// # Errors
/// It has no name.
pub fn node(metadata: &ObjectMeta) -> Result<Node, FieldError> {
    let annotations = metadata.annotations.iter().flatten();
    let known = annotations.filter(|(key, _)| *key == NODE_BANDWIDTH_ANNOTATION);
    Ok(Node {
        name: name(metadata)?,
        labels: labels(metadata),
        annotations: known
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
    })
}
