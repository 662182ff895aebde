//! Names and labels.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use netqos_core::{Labels, ObjectName};

use crate::FieldError;

/// The namespace of what names none, as with `kubectl`.
const DEFAULT_NAMESPACE: &str = "default";

pub(crate) fn name(metadata: &ObjectMeta) -> Result<Arc<str>, FieldError> {
    match metadata.name.as_deref() {
        None | Some("") => Err(FieldError::new("metadata.name", "missing")),
        Some(name) => Ok(name.into()),
    }
}

/// Namespace and name; the namespace is `default` where it is absent.
pub(crate) fn namespaced(metadata: &ObjectMeta) -> Result<ObjectName, FieldError> {
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    let namespace = match namespace {
        "" => DEFAULT_NAMESPACE,
        namespace => namespace,
    };
    Ok(ObjectName {
        namespace: namespace.into(),
        name: name(metadata)?,
    })
}

pub(crate) fn labels(metadata: &ObjectMeta) -> Labels {
    let labels = metadata.labels.iter().flatten();
    labels
        .map(|(key, value)| (key.as_str().into(), value.as_str().into()))
        .collect()
}
