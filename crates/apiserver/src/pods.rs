//! What pods have beside their status: binding to a node, and eviction.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::call::Call;
use crate::delete::{Deleted, Options, delete};
use crate::resource::Resource;
use crate::selectors::Selector;
use crate::state::State;
use crate::status::Refusal;
use crate::store::Key;
use crate::time::now;

/// `POST …/pods/NAME/binding`: puts a pod on a node.
///
/// # Errors
/// 409 when it is on one already, or going.
pub(crate) fn bind(
    state: &mut State,
    pods: &Arc<Resource>,
    key: &Key,
    binding: &Value,
) -> Result<(), Refusal> {
    let Some(node) = binding["target"]["name"]
        .as_str()
        .filter(|node| !node.is_empty())
    else {
        return Err(Refusal::bad_request("target.name: missing"));
    };
    let Some(stored) = state.store.get(&pods.storage, key) else {
        return Err(Refusal::not_found(pods, &key.name));
    };
    let mut pod = stored.value(pods);
    let on = pod["spec"]["nodeName"].as_str().unwrap_or("");
    if !on.is_empty() {
        let why = format!("pod {} is already assigned to node {on:?}", key.name);
        return Err(Refusal::conflict(pods, &key.name, &why));
    }
    if !pod["metadata"]["deletionTimestamp"].is_null() {
        let why = format!(
            "pod {} is being deleted, cannot be assigned to a host",
            key.name
        );
        return Err(Refusal::conflict(pods, &key.name, &why));
    }
    pod["spec"]["nodeName"] = node.into();
    let scheduled = json!({
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": null,
        "lastTransitionTime": now(),
    });
    match pod["status"]["conditions"].as_array_mut() {
        Some(conditions) => {
            conditions.retain(|condition| condition["type"] != "PodScheduled");
            conditions.push(scheduled);
        }
        None => pod["status"]["conditions"] = json!([scheduled]),
    }
    state.store.put(pods, key.clone(), pod);
    Ok(())
}

/// `POST …/pods/NAME/eviction`: deletes a pod if its budgets allow.
///
/// # Errors
/// 429 when a budget does not allow it, 500 when several budgets are for it, 404.
pub(crate) fn evict(
    state: &mut State,
    pods: &Arc<Resource>,
    key: &Key,
    eviction: &Value,
    call: &Call,
) -> Result<(), Refusal> {
    let Some(stored) = state.store.get(&pods.storage, key).cloned() else {
        return Err(Refusal::not_found(pods, &key.name));
    };
    let options = Options::new(&eviction["deleteOptions"], call);
    let phase = stored.fields.get("status.phase").map_or("", String::as_str);
    let at_end = ["Succeeded", "Failed", "Pending"].contains(&phase);
    let budgets = state.registry.get("policy", "v1", "poddisruptionbudgets");
    if let Some(budgets) = budgets.filter(|_| !at_end) {
        let mut found = Vec::new();
        for budget in state.store.objects(&budgets.storage, Some(&key.namespace)) {
            let object = budget.value(&budgets);
            let selector = label_selector(&object["spec"]["selector"]);
            if Selector::parse(&selector, "", pods)?.matches(&stored) {
                found.push((budget.key.clone(), object));
            }
        }
        match found.pop() {
            Some(_) if !found.is_empty() => {
                let message = "This pod has more than one PodDisruptionBudget, which the eviction \
                               subresource does not support.";
                return Err(Refusal::new(500, "InternalError", message));
            }
            Some((budget, mut object)) => {
                let allowed = object["status"]["disruptionsAllowed"].as_i64().unwrap_or(0);
                if allowed < 1 {
                    return Err(refused(&budget, &object));
                }
                if !options.dry_run {
                    object["status"]["disruptionsAllowed"] = (allowed - 1).into();
                    state.store.put(&budgets, budget, object);
                }
            }
            None => {}
        }
    }
    match delete(state, pods, key, &options)? {
        Deleted::Gone(_) | Deleted::Waiting(_) => Ok(()),
    }
}

fn refused(budget: &Key, object: &Value) -> Refusal {
    let number = |name: &str| object["status"][name].as_i64().unwrap_or(0);
    let cause = json!([{
        "reason": "DisruptionBudget",
        "message": format!(
            "The disruption budget {} needs {} healthy pods and has {} currently",
            budget.name,
            number("desiredHealthy"),
            number("currentHealthy"),
        ),
    }]);
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    Refusal::new(429, "TooManyRequests", message)
        .with("causes", cause)
        .with("retryAfterSeconds", 10.into())
}

/// A `metav1.LabelSelector` as it stands in a query.
fn label_selector(selector: &Value) -> String {
    let mut terms = Vec::new();
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        terms.push(format!("{key}={}", value.as_str().unwrap_or("")));
    }
    for one in selector["matchExpressions"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let key = one["key"].as_str().unwrap_or("");
        let values: Vec<&str> = one["values"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let values = values.join(",");
        terms.push(match one["operator"].as_str().unwrap_or("") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    terms.join(",")
}
