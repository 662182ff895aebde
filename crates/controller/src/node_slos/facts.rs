//! What is known of a node, and of its NodeSLO.

use std::collections::BTreeMap;
use std::sync::Arc;

use netqos_api::koordinator::NODE_BANDWIDTH_ANNOTATION;
use netqos_cluster::ObjectVersion;
use netqos_core::Labels;
use serde_json::{Map, Value};

use super::applied;

/// What of a Node counts for its NodeSLO.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeFacts {
    pub(crate) uid: String,
    pub(crate) labels: Labels,
    /// Those that a strategy heeds.
    pub(crate) annotations: BTreeMap<String, String>,
}

/// What of a NodeSLO counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ObjectFacts {
    /// What of its spec is ours.
    pub(crate) applied: Option<Map<String, Value>>,
    /// The uids of those that it goes with.
    pub(crate) owners: Vec<String>,
    /// When Koordinator's manager has written it last.
    pub(crate) koordinators: Option<String>,
    /// The state of the object that this is known from.
    pub(crate) version: ObjectVersion,
}

/// The ConfigMap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ConfigFacts {
    pub(crate) uid: String,
    pub(crate) data: BTreeMap<String, String>,
}

impl NodeFacts {
    /// Of a Node.
    pub(crate) fn of(node: &Value) -> Self {
        let labels = texts(node, "/metadata/labels");
        let labels = labels.map(|(name, value)| (Arc::from(name), Arc::from(value)));
        let annotations = texts(node, "/metadata/annotations");
        let annotations = annotations.filter(|(name, _)| *name == NODE_BANDWIDTH_ANNOTATION);
        Self {
            uid: uid(node),
            labels: labels.collect(),
            annotations: owned(annotations),
        }
    }
}

impl ObjectFacts {
    /// Of a NodeSLO with its `managedFields`, which has this resourceVersion.
    pub(crate) fn of(object: &Value, number: u64) -> Self {
        let owners = object.pointer("/metadata/ownerReferences");
        let owners = owners.and_then(Value::as_array).into_iter().flatten();
        let owners = owners.filter_map(|it| Some(it.get("uid")?.as_str()?.to_owned()));
        Self {
            applied: applied::by_netqos(object),
            owners: owners.collect(),
            koordinators: applied::by_koordinator(object),
            version: ObjectVersion {
                uid: uid(object).into(),
                number,
            },
        }
    }
}

impl ConfigFacts {
    /// Of a ConfigMap.
    pub(crate) fn of(object: &Value) -> Self {
        Self {
            uid: uid(object),
            data: owned(texts(object, "/data")),
        }
    }
}

fn uid(object: &Value) -> String {
    let uid = object.pointer("/metadata/uid").and_then(Value::as_str);
    uid.unwrap_or_default().to_owned()
}

fn texts<'v>(object: &'v Value, path: &str) -> impl Iterator<Item = (&'v str, &'v str)> {
    let map = object.pointer(path).and_then(Value::as_object);
    let map = map.into_iter().flatten();
    map.filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)))
}

fn owned<'v>(texts: impl Iterator<Item = (&'v str, &'v str)>) -> BTreeMap<String, String> {
    texts
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}
