//! Who wins when a node's line is full: the ConfigMap `slo-controller-config`, and NodeSLO objects.

use netqos_k8s::check::slo::{check_node_slo, check_slo_config, read_node_slo, slo_config_keys};
use serde_json::Value;

use crate::findings::Findings;

/// What is wrong with the ConfigMap, where its keys are others than before.
pub(crate) fn check_config(object: &Value, old: Option<&Value>) -> Findings {
    let is_same = |old| slo_config_keys(old) == slo_config_keys(object);
    match old.is_some_and(is_same) {
        true => Findings::default(),
        false => check_slo_config(object).into(),
    }
}

/// What is wrong with a NodeSLO, where what it says of the network is other than before.
pub(crate) fn check_node(object: &Value, old: Option<&Value>) -> Findings {
    let is_same = |old| read_node_slo(old) == read_node_slo(object);
    match old.is_some_and(is_same) {
        true => Findings::default(),
        false => check_node_slo(object).into(),
    }
}
