//! Which writes a webhook is asked about.

use netqos_k8s::convert::label_selector;
use serde_json::Value;

use super::{Question, policies};
use crate::state::{State, key};

/// Whether a webhook wants to be asked.
pub(super) fn matches(state: &State, webhook: &Value, question: &Question) -> bool {
    let mut rules = webhook["rules"].as_array().into_iter().flatten();
    rules.any(|rule| is_of(rule, question))
        && namespace_matches(state, &webhook["namespaceSelector"], question)
        && object_matches(&webhook["objectSelector"], question)
        && conditions_hold(webhook, question)
}

/// By its `matchConditions`. One that cannot be evaluated is as a webhook that does not answer, which
/// is passed over where its policy says so; else it is asked.
fn conditions_hold(webhook: &Value, question: &Question) -> bool {
    let conditions = webhook["matchConditions"].as_array().into_iter().flatten();
    let mut held = conditions.map(|it| policies::holds(&it["expression"], question));
    let may_be_passed_over = webhook["failurePolicy"] == "Ignore";
    held.all(|held| held.unwrap_or(!may_be_passed_over))
}

fn is_of(rule: &Value, question: &Question) -> bool {
    let has = |list: &Value, wanted: &str| {
        let mut list = list.as_array().into_iter().flatten();
        list.any(|one| one == "*" || one == wanted)
    };
    let resource = &question.resource;
    let scope = match resource.namespaced {
        true => "Namespaced",
        false => "Cluster",
    };
    has(&rule["operations"], question.operation)
        && has(&rule["apiGroups"], &resource.group)
        && has(&rule["apiVersions"], &resource.version)
        && (rule["scope"].is_null() || rule["scope"] == "*" || rule["scope"] == scope)
        && names(
            &rule["resources"],
            &resource.plural,
            question.subresource.as_deref(),
        )
}

/// `pods`, `pods/status`, `pods/*`, `*`, `*/status` or `*/*`.
fn names(resources: &Value, plural: &str, subresource: Option<&str>) -> bool {
    let resources = resources.as_array().into_iter().flatten();
    let mut resources = resources.filter_map(Value::as_str);
    resources.any(|wanted| {
        let (of, below) = match wanted.split_once('/') {
            Some((of, below)) => (of, Some(below)),
            None => (wanted, None),
        };
        (of == "*" || of == plural)
            && match (below, subresource) {
                (None, None) | (Some("*"), _) => true,
                (Some(below), Some(subresource)) => below == subresource,
                _ => false,
            }
    })
}

/// Objects that are in no namespace are never left out by one.
fn namespace_matches(state: &State, selector: &Value, question: &Question) -> bool {
    if question.resource.is("", "namespaces") {
        return is_selected(selector, present(question));
    }
    let namespaces = state.registry.get("", "v1", "namespaces");
    let (true, Some(namespaces)) = (question.resource.namespaced, namespaces) else {
        return true;
    };
    let stored = state
        .store
        .get(&namespaces.storage, &key("", &question.key.namespace));
    stored.is_some_and(|stored| is_selected(selector, &stored.value(&namespaces)))
}

/// By what it is, or was.
fn object_matches(selector: &Value, question: &Question) -> bool {
    let mut objects = [&question.object, &question.old].into_iter();
    objects.any(|object| object.is_object() && is_selected(selector, object))
}

fn present(question: &Question) -> &Value {
    match question.object.is_null() {
        true => &question.old,
        false => &question.object,
    }
}

fn is_selected(selector: &Value, object: &Value) -> bool {
    let Ok(selector) = serde_json::from_value(selector.clone()) else {
        return selector.is_null();
    };
    let labels = object["metadata"]["labels"]
        .as_object()
        .into_iter()
        .flatten();
    let labels =
        labels.filter_map(|(name, value)| Some((name.as_str().into(), value.as_str()?.into())));
    label_selector(&selector).is_ok_and(|selector| selector.matches(&labels.collect()))
}
