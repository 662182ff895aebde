//! From what there is to what there should be.

use std::collections::BTreeMap;
use std::fmt;

use netqos_cluster::ObjectVersion;
use netqos_core::ObjectName;
use netqos_k8s::{DEFAULT_LABEL, NetworkQoS};
use serde_json::Value;

use super::seen::Seen;

/// A write.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// It is missing. One of its name that somebody else made stays, and this fails.
    Create(NetworkQoS),
    /// It is not as the template says. The object carries the uid and resourceVersion that it had.
    Replace(NetworkQoS),
    /// Nothing asks for it any more, as it was seen last.
    Delete {
        name: ObjectName,
        version: ObjectVersion,
    },
}

/// What has to be done.
pub(super) fn steps(seen: &Seen) -> Vec<Step> {
    let mut wanted: BTreeMap<ObjectName, NetworkQoS> = BTreeMap::new();
    for (name, default) in &seen.defaults {
        let Some(default) = default else { continue };
        for (namespace, labels) in &seen.namespaces {
            if default.namespaces.matches(labels) {
                let object = default.object.object(namespace);
                wanted.insert(ObjectName::new(namespace, name), object);
            }
        }
    }
    let mut steps = Vec::new();
    for (name, made) in &seen.made {
        // Whoever puts the label on an object of another name has not asked for its end.
        let labels = made.metadata.labels.as_ref();
        let label = labels.and_then(|labels| labels.get(DEFAULT_LABEL));
        let is_ours = label.is_some_and(|label| **label == *name.name);
        let unreadable = matches!(seen.defaults.get(&name.name), Some(None));
        // What is in a namespace that goes is nobody's business but the server's.
        let stays = seen.namespaces.contains_key(&name.namespace);
        if is_ours && !unreadable && stays && !wanted.contains_key(name) {
            steps.push(Step::Delete {
                name: name.clone(),
                version: ObjectVersion::of(&made.metadata),
            });
        }
    }
    for (name, wanted) in wanted {
        match seen.made.get(&name) {
            None => steps.push(Step::Create(wanted)),
            Some(made) => steps.extend(replaced(made, wanted).map(Step::Replace)),
        }
    }
    steps
}

/// The object as it should be; `None`: it is. What others have written beside that stays.
fn replaced(made: &NetworkQoS, wanted: NetworkQoS) -> Option<NetworkQoS> {
    let mut now = made.clone();
    // Compared as it is sent: a field that is absent and one that is empty are two things.
    let value = |object: &NetworkQoS| serde_json::to_value(&object.spec).unwrap_or(Value::Null);
    if value(made) != value(&wanted) {
        now.spec = wanted.spec;
    }
    let labels = now.metadata.labels.get_or_insert_default();
    labels.extend(wanted.metadata.labels.unwrap_or_default());
    if let Some(annotations) = wanted.metadata.annotations {
        now.metadata
            .annotations
            .get_or_insert_default()
            .extend(annotations);
    }
    (now != *made).then_some(now)
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = |object: &NetworkQoS| {
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            let metadata = &object.metadata;
            format!("{}/{}", text(&metadata.namespace), text(&metadata.name))
        };
        match self {
            Self::Create(object) => write!(f, "make the default NetworkQoS {}", named(object)),
            Self::Replace(object) => {
                write!(f, "put the default NetworkQoS {} right", named(object))
            }
            Self::Delete { name, .. } => write!(f, "delete the NetworkQoS {name}"),
        }
    }
}
