//! Events of `v1` and of `events.k8s.io/v1` are the same objects, under other names of their fields.
//! They are kept as `v1`.

use std::sync::Arc;

use serde_json::Value;

use crate::resource::Resource;
use crate::state::State;

/// The fields that have other names: in `v1`, in `events.k8s.io/v1`.
const FIELDS: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// Whether a resource is the one whose objects are kept as another's.
pub(crate) fn is_renamed(resource: &Resource) -> bool {
    resource.is("events.k8s.io", "events")
}

/// The object as it is kept, and the resource that it is kept as.
pub(crate) fn as_stored(
    state: &State,
    resource: &Arc<Resource>,
    object: Value,
) -> (Arc<Resource>, Value) {
    match state.registry.get("", "v1", "events") {
        Some(events) if is_renamed(resource) => {
            let object = renamed(object, &events, |(core, new)| (new, core));
            (events, object)
        }
        _ => (resource.clone(), object),
    }
}

/// An object that was kept as `v1`, as `events.k8s.io/v1` has it.
pub(crate) fn as_served(resource: &Resource, object: Value) -> Value {
    renamed(object, resource, |pair| pair)
}

fn renamed(
    mut object: Value,
    resource: &Resource,
    direction: fn((&'static str, &'static str)) -> (&'static str, &'static str),
) -> Value {
    if let Some(fields) = object.as_object_mut() {
        for pair in FIELDS {
            let (from, to) = direction(pair);
            if let Some(value) = fields.remove(from) {
                fields.insert(to.to_owned(), value);
            }
        }
        fields.insert("apiVersion".into(), resource.api_version().into());
    }
    object
}
