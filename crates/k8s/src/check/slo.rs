//! Who wins when a node's uplink is full: the ConfigMap `slo-controller-config`, and NodeSLO objects.
//!
//! What Koordinator's own webhook looks at is looked at here as well, in its words, and more: that of
//! percentages and of quantities neither is above its limit nor all together above the line, LSR and LS
//! counted once. Both in one strategy are a warning, and not refused as there. Keys of the ConfigMap
//! that are none of the network's are not looked at.

use std::collections::BTreeMap;

use netqos_api::koordinator::{
    Mistake, NodeSlo, RESOURCE_QOS, SYSTEM, SloConfig, concerns_network,
};
use serde_json::{Map, Value};

use super::Findings;
use crate::FieldError;

/// What is wrong with the ConfigMap.
pub fn check_slo_config(object: &Value) -> Findings {
    let mut config = SloConfig::default();
    let mut warnings = Vec::new();
    let mistakes = match config.update(&slo_config_keys(object)) {
        Ok(()) => {
            let found = [config.warnings(), config.mixed_formats()].concat();
            warnings.extend(found.into_iter().map(|it| inside("data", it)));
            config.contradictions()
        }
        Err(unreadable) => {
            let said = unreadable.into_iter();
            said.map(|it| in_their_words(object, it)).collect()
        }
    };
    let errors = mistakes.into_iter().map(|it| inside("data", it)).collect();
    Findings { errors, warnings }
}

/// What is wrong with what a NodeSLO says of the network.
pub fn check_node_slo(object: &Value) -> Findings {
    let slo = match read_node_slo(object) {
        Ok(slo) => slo,
        Err(unreadable) => {
            let unreadable = unreadable.into_iter();
            return Findings::errors(unreadable.map(|it| inside("spec", it)).collect());
        }
    };
    let warnings = slo.warnings().into_iter();
    let wrong = slo.with_defaults().check().err().unwrap_or_default();
    let wrong = wrong.into_iter();
    Findings {
        errors: wrong
            .map(|it| FieldError::new(format!("spec ({})", it.path), it.what))
            .collect(),
        warnings: warnings
            .map(|it| inside("spec.resourceQOSStrategy", it))
            .collect(),
    }
}

/// Of a key that is no JSON Koordinator's webhook says this, too.
fn in_their_words(object: &Value, mistake: Mistake) -> Mistake {
    let key = match &*mistake.path {
        RESOURCE_QOS => "ResourceQOS",
        SYSTEM => "System",
        _ => return mistake,
    };
    let name = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    let (namespace, name) = (name("namespace"), name("name"));
    let what = format!(
        "Failed to parse {key} config in configmap {namespace}/{name}, err: {}",
        mistake.what
    );
    Mistake { what, ..mistake }
}

/// The keys of the ConfigMap that are checked.
pub fn slo_config_keys(object: &Value) -> BTreeMap<String, String> {
    let data = object.get("data").and_then(Value::as_object);
    let keys = data.into_iter().flatten();
    let keys = keys.filter(|(key, _)| concerns_network(key));
    keys.filter_map(|(key, text)| Some((key.clone(), text.as_str()?.to_owned())))
        .collect()
}

/// What a NodeSLO says of the network.
///
/// # Errors
/// Everything that cannot be parsed.
pub fn read_node_slo(object: &Value) -> Result<NodeSlo, Vec<Mistake>> {
    match object.get("spec") {
        Some(Value::Object(spec)) => NodeSlo::from_spec(spec),
        _ => NodeSlo::from_spec(&Map::new()),
    }
}

fn inside(parent: &str, mistake: Mistake) -> FieldError {
    FieldError::new(format!("{parent}.{}", mistake.path), mistake.what)
}
