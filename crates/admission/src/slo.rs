//! Who wins when a node's line is full: the ConfigMap `slo-controller-config`, and NodeSLO objects.
//!
//! What Koordinator's own webhook looks at is looked at here as well, in its words, and more: that of
//! percentages and of quantities neither is above its limit nor all together above the line, LSR and LS
//! counted once. Both in one strategy are a warning, and not refused as there. Keys of the ConfigMap
//! that are none of the network's are not looked at.

use std::collections::BTreeMap;

use netqos_api::koordinator::{Mistake, NodeSlo, RESOURCE_QOS, SYSTEM, SloConfig};
use netqos_k8s::FieldError;
use serde_json::{Map, Value};

use crate::findings::Findings;

/// What is wrong with the ConfigMap, where its keys are others than before.
pub(crate) fn check_config(object: &Value, old: Option<&Value>) -> Findings {
    let mut findings = Findings::default();
    let now = keys(object);
    if old.is_some_and(|old| keys(old) == now) {
        return findings;
    }
    let mut config = SloConfig::default();
    let mistakes = match config.update(&now) {
        Ok(()) => {
            for warning in [config.warnings(), config.mixed_formats()].concat() {
                findings.warn(format!("data.{warning}"));
            }
            config.contradictions()
        }
        Err(unreadable) => {
            let said = unreadable.into_iter();
            said.map(|it| in_their_words(object, it)).collect()
        }
    };
    findings.invalid = mistakes.into_iter().map(|it| inside("data", it)).collect();
    findings
}

/// What is wrong with a NodeSLO, where what it says of the network is other than before.
pub(crate) fn check_node(object: &Value, old: Option<&Value>) -> Findings {
    let mut findings = Findings::default();
    let now = read(object);
    if old.is_some_and(|old| read(old) == now) {
        return findings;
    }
    findings.invalid = match now {
        Err(unreadable) => unreadable
            .into_iter()
            .map(|it| inside("spec", it))
            .collect(),
        Ok(slo) => {
            for warning in slo.warnings() {
                findings.warn(format!("spec.resourceQOSStrategy.{warning}"));
            }
            let wrong = slo
                .with_defaults()
                .check()
                .err()
                .unwrap_or_default()
                .into_iter();
            wrong
                .map(|it| FieldError::new(format!("spec ({})", it.path), it.what))
                .collect()
        }
    };
    findings
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

fn keys(object: &Value) -> BTreeMap<String, String> {
    let text = |key: &str| {
        let text = object.get("data")?.get(key)?.as_str()?;
        Some((key.to_owned(), text.to_owned()))
    };
    [RESOURCE_QOS, SYSTEM]
        .into_iter()
        .filter_map(text)
        .collect()
}

fn read(object: &Value) -> Result<NodeSlo, Vec<Mistake>> {
    match object.get("spec") {
        Some(Value::Object(spec)) => NodeSlo::from_spec(spec),
        _ => NodeSlo::from_spec(&Map::new()),
    }
}

fn inside(parent: &str, mistake: Mistake) -> FieldError {
    FieldError::new(format!("{parent}.{}", mistake.path), mistake.what)
}
