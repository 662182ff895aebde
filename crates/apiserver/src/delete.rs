//! Deletion: finalizers, graceful ends of pods, preconditions.

use std::sync::Arc;

use serde_json::Value;

use crate::call::Call;
use crate::events;
use crate::resource::Resource;
use crate::state::State;
use crate::status::Refusal;
use crate::store::{Key, Stored};
use crate::time::{after, now};

/// `metav1.DeleteOptions`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    grace: Option<i64>,
    uid: Option<String>,
    revision: Option<String>,
    pub(crate) dry_run: bool,
}

/// What became of an object.
pub(crate) enum Deleted {
    /// It is gone; its last state.
    Gone(Arc<Stored>),
    /// It is marked as to be deleted, and somebody has to finish it.
    Waiting(Arc<Stored>),
}

impl Options {
    /// From a body, which may be empty, and the query.
    pub(crate) fn new(body: &Value, call: &Call) -> Self {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let grace = call.query.number("gracePeriodSeconds");
        Self {
            grace: body["gracePeriodSeconds"]
                .as_i64()
                .or(grace.map(|grace| grace as i64)),
            uid: text(&body["preconditions"]["uid"]),
            revision: text(&body["preconditions"]["resourceVersion"]),
            dry_run: call.query.get("dryRun").is_some() || body["dryRun"].is_array(),
        }
    }
}

/// Deletes an object.
///
/// # Errors
/// 404, and 409 for a precondition that does not hold.
pub(crate) fn delete(
    state: &mut State,
    resource: &Arc<Resource>,
    key: &Key,
    options: &Options,
) -> Result<Deleted, Refusal> {
    // An event is kept as the other kind of event.
    let (resource, _) = events::as_stored(state, resource, Value::Null);
    let Some(stored) = state.store.get(&resource.storage, key).cloned() else {
        return Err(Refusal::not_found(&resource, &key.name));
    };
    let mut object = stored.value(&resource);
    check(&object, &resource, key, options)?;
    if options.dry_run {
        return Ok(Deleted::Waiting(stored));
    }
    if resource.is("", "namespaces") {
        let last = state.end_namespace(&key.name).unwrap_or(stored);
        return Ok(Deleted::Waiting(last));
    }
    let held = object["metadata"]["finalizers"].as_array();
    let held = held.is_some_and(|held| !held.is_empty());
    let grace = grace(&object, &resource, options);
    if !held && grace == 0 {
        let last = state.end(&resource, key).unwrap_or(stored);
        return Ok(Deleted::Gone(last));
    }
    let metadata = &mut object["metadata"];
    let marked = !metadata["deletionTimestamp"].is_null();
    let shorter = metadata["deletionGracePeriodSeconds"]
        .as_i64()
        .is_none_or(|before| grace < before);
    if marked && !shorter {
        return Ok(Deleted::Waiting(stored));
    }
    metadata["deletionTimestamp"] = if grace == 0 { now() } else { after(grace) }.into();
    metadata["deletionGracePeriodSeconds"] = grace.into();
    if let Some(generation) = metadata["generation"].as_i64().filter(|_| !marked) {
        metadata["generation"] = (generation + 1).into();
    }
    let stored = state.store.put(&resource, key.clone(), object);
    Ok(Deleted::Waiting(stored))
}

fn check(object: &Value, resource: &Resource, key: &Key, options: &Options) -> Result<(), Refusal> {
    let preconditions = [
        ("UID", "uid", &options.uid),
        ("ResourceVersion", "resourceVersion", &options.revision),
    ];
    for (word, field, wanted) in preconditions {
        let is = object["metadata"][field].as_str().unwrap_or("");
        if let Some(wanted) = wanted.as_deref().filter(|wanted| *wanted != is) {
            let why = format!(
                "Precondition failed: {word} in precondition: {wanted}, {word} in object meta: {is}"
            );
            return Err(Refusal::conflict(resource, &key.name, &why));
        }
    }
    Ok(())
}

/// How long the kubelet has. Only a pod that is on a node and not at its end has any.
fn grace(object: &Value, resource: &Resource, options: &Options) -> i64 {
    let node = object["spec"]["nodeName"].as_str().unwrap_or("");
    let phase = object["status"]["phase"].as_str().unwrap_or("");
    if !resource.is("", "pods") || node.is_empty() || ["Succeeded", "Failed"].contains(&phase) {
        return 0;
    }
    let own = object["spec"]["terminationGracePeriodSeconds"].as_i64();
    options.grace.or(own).unwrap_or(30).max(0)
}
