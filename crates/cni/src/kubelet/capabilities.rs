//! Which arguments the plugins of a list get for a pod.

use netqos_api::RateUnit;
use netqos_api::capability::{
    BANDWIDTH, POD_ANNOTATIONS, TRAFFIC_SHAPING, bandwidth_argument, traffic_shaping_argument,
};
use netqos_core::{Direction, Limits};
use serde_json::{Map, Value, json};

use super::{KubeletError, Pod, Warning};
use crate::runtime::NetworkConfigList;

/// The key of a plugin's configuration that says what the numbers of its `trafficShaping` count.
const UNIT_KEY: &str = "unit";

/// The arguments for what the plugins of the list declare. A pod without limits has no argument
/// about bandwidth, as with the runtimes.
pub(super) fn arguments(
    list: &NetworkConfigList,
    pod: &Pod,
    limits: &Limits,
) -> Result<Map<String, Value>, KubeletError> {
    let mut arguments = Map::new();
    if !limits.is_unlimited() {
        if declares(list, BANDWIDTH) {
            arguments.insert(BANDWIDTH.to_owned(), bandwidth_argument(limits));
        }
        if let Some(unit) = unit(list)? {
            let argument = traffic_shaping_argument(limits, unit);
            arguments.insert(TRAFFIC_SHAPING.to_owned(), argument);
        }
    }
    if declares(list, POD_ANNOTATIONS) {
        arguments.insert(POD_ANNOTATIONS.to_owned(), json!(pod.annotations));
    }
    Ok(arguments)
}

/// What the pod asks for and no plugin of the list can be told.
pub(super) fn warnings(list: &NetworkConfigList, limits: &Limits) -> Vec<Warning> {
    if limits.is_unlimited() {
        return Vec::new();
    }
    let network = list.name.clone();
    if !declares(list, BANDWIDTH) && !declares(list, TRAFFIC_SHAPING) {
        return vec![Warning::NoPluginShapes { network }];
    }
    let latency = [Direction::Ingress, Direction::Egress]
        .iter()
        .filter_map(|direction| limits.of(*direction))
        .any(|limit| limit.latency.is_some());
    if latency && !declares(list, POD_ANNOTATIONS) {
        return vec![Warning::LatencyNotPassedOn { network }];
    }
    Vec::new()
}

fn declares(list: &NetworkConfigList, capability: &str) -> bool {
    list.declaring(capability).next().is_some()
}

/// The unit of the plugins that declare `trafficShaping`; `None` without such a plugin. The
/// argument is one for the whole list, so they must agree.
fn unit(list: &NetworkConfigList) -> Result<Option<RateUnit>, KubeletError> {
    let mut units = list.declaring(TRAFFIC_SHAPING).map(|plugin| {
        let name = match plugin.raw.get(UNIT_KEY) {
            None | Some(Value::Null) => return Ok(RateUnit::default()),
            Some(name) => name,
        };
        name.as_str()
            .and_then(RateUnit::from_name)
            .ok_or_else(|| KubeletError::UnknownUnit {
                network: list.name.clone(),
                plugin: plugin.kind.clone(),
                unit: name.to_string(),
            })
    });
    let Some(first) = units.next().transpose()? else {
        return Ok(None);
    };
    for unit in units {
        if unit? != first {
            return Err(KubeletError::UnitsDiffer {
                network: list.name.clone(),
            });
        }
    }
    Ok(Some(first))
}
