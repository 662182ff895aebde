//! `NetworkQoS`: all that an API server says by the newest definition, which the cluster may not have;
//! and what depends on other objects.

use netqos_k8s::{
    FieldError, MODE_ANNOTATION, Object, object_from_value, validate, validate_update,
};
use serde_json::Value;

use crate::findings::Findings;
use crate::known::Known;

/// What is wrong with an object. What is wanted by it unchanged is passed over: an object that was
/// taken before a quota came must go on to be labelled, and deleted.
pub(crate) fn check(object: &Value, old: Option<&Value>, known: &Known) -> Findings {
    let mut findings = Findings::default();
    if old.is_some_and(|old| wanted(old) == wanted(object)) {
        return findings;
    }
    findings.invalid = match old {
        Some(old) => validate_update(object, old),
        None => validate(object),
    };
    if !findings.invalid.is_empty() {
        return findings;
    }
    let policy = match object_from_value(object) {
        Ok(Object::Policy(policy)) => policy,
        Ok(_) => return findings,
        Err(errors) => {
            findings.invalid = errors;
            return findings;
        }
    };
    let excesses = known.excesses(&policy).into_iter();
    findings.forbidden = excesses
        .map(|it| {
            let message = format!("{} (NetworkQoSQuota {})", it.message, it.quota);
            FieldError::new(it.field, message)
        })
        .collect();
    let equals = known.equals(&policy);
    if !equals.is_empty() {
        let names: Vec<&str> = equals.iter().take(3).map(|name| &*name.name).collect();
        let more = match equals.len().saturating_sub(names.len()) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        findings.warn(format!(
            "spec.priority: {} is that of {}{more}, too: where they match one packet, the smaller \
             name wins; give them different priorities",
            policy.priority,
            names.join(", ")
        ));
    }
    findings
}

/// What an object asks for.
fn wanted(object: &Value) -> (&Value, &Value) {
    let mode = &object["metadata"]["annotations"][MODE_ANNOTATION];
    (&object["spec"], mode)
}
