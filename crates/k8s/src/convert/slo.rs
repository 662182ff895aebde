//! Koordinator's documents about nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use netqos_api::koordinator::{Mistake, NodeSlo, concerns_network};
use netqos_core::ObjectName;
use serde_json::{Map, Value};

use super::metadata::name;
use super::namespaced;
use crate::FieldError;

/// The keys of a ConfigMap.
type Keys = BTreeMap<String, String>;
/// What a `NodeSLO` says of the network, or all that is wrong with it.
type Said = Result<NodeSlo, Vec<Mistake>>;

/// What Koordinator calls its ConfigMap.
const SLO_CONFIG: &str = "slo-controller-config";

/// The keys of Koordinator's ConfigMap that concern the network; `None` of any other one.
///
/// # Errors
/// It has no name.
pub fn slo_config(object: ConfigMap) -> Result<Option<(ObjectName, Keys)>, FieldError> {
    let name = namespaced(&object.metadata)?;
    if &*name.name != SLO_CONFIG {
        return Ok(None);
    }
    let mut data = object.data.unwrap_or_default();
    data.retain(|key, _| concerns_network(key));
    Ok(Some((name, data)))
}

/// What a `NodeSLO` says of the network, under the name of its node; or all that is wrong with that.
///
/// # Errors
/// It has no name.
pub fn node_slo(metadata: &ObjectMeta, object: &Value) -> Result<(Arc<str>, Said), FieldError> {
    let nothing = Map::new();
    let spec = match object.get("spec") {
        None | Some(Value::Null) => &nothing,
        Some(Value::Object(spec)) => spec,
        Some(_) => return Err(FieldError::new("spec", "is no object")),
    };
    Ok((name(metadata)?, NodeSlo::from_spec(spec)))
}
