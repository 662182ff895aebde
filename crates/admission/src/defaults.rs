//! What is filled in.

use json_patch::Patch;
use serde_json::{Value, json};

use crate::known::Known;

/// The change that gives a `NetworkQoS` without a priority the least that the quotas for its
/// namespace allow. `None`: nothing is missing.
pub(crate) fn patch(object: &Value, namespace: &str, known: &Known) -> Option<Patch> {
    let spec = object.get("spec")?.as_object()?;
    if spec
        .get("priority")
        .is_some_and(|priority| !priority.is_null())
    {
        return None;
    }
    let least = known.least_priority(namespace).get();
    let patch = json!([{"op": "add", "path": "/spec/priority", "value": least}]);
    serde_json::from_value(patch).ok()
}
