//! What an API server checks of any object's metadata, as far as people write it.

use serde_json::Value;

use crate::FieldError;
use crate::field::{child, entry};
use crate::openapi::QUOTE_TEXTS;

/// The fields of `metav1.ObjectMeta`.
const KNOWN: [&str; 15] = [
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// The longest name of an object (RFC 1123 subdomain).
const NAME: usize = 253;
/// The longest name of a namespace (RFC 1123 label).
const NAMESPACE: usize = 63;

pub(super) fn check(metadata: Option<&Value>, errors: &mut Vec<FieldError>) {
    let Some(Value::Object(fields)) = metadata else {
        errors.push(FieldError::new("metadata.name", "missing"));
        return;
    };
    for unknown in fields.keys().filter(|name| !KNOWN.contains(&&***name)) {
        errors.push(FieldError::new(child("metadata", unknown), "unknown field"));
    }
    let text = |name: &str| fields.get(name).filter(|value| !value.is_null());
    match (text("name"), text("generateName")) {
        (Some(Value::String(name)), _) if is_subdomain(name) => {}
        (Some(name), _) => errors.push(FieldError::new(
            "metadata.name",
            format_args!(
                "{name} is not a name: use at most {NAME} lower-case letters, digits, '-' and '.', with a letter or \
                 digit at both ends and beside each '.'{}",
                quotes_for(name)
            ),
        )),
        (None, Some(Value::String(_))) => {}
        (None, _) => errors.push(FieldError::new("metadata.name", "missing")),
    }
    match text("namespace") {
        None => {}
        Some(Value::String(name)) if name.is_empty() || is_label(name) => {}
        Some(name) => errors.push(FieldError::new(
            "metadata.namespace",
            format_args!(
                "{name} is not a namespace: use at most {NAMESPACE} lower-case letters, digits and '-', with a letter \
                 or digit at both ends{}",
                quotes_for(name)
            ),
        )),
    }
    for map in ["labels", "annotations"] {
        let path = child("metadata", map);
        match text(map) {
            None => {}
            Some(Value::Object(entries)) => {
                let wrong = entries.iter().filter(|(_, value)| !value.is_string());
                errors.extend(wrong.map(|(key, value)| {
                    let message = format!("a text is expected{}", quotes_for(value));
                    FieldError::new(entry(&path, key), message)
                }));
            }
            Some(_) => errors.push(FieldError::new(path, "an object is expected")),
        }
    }
}

/// The remedy where a boolean stands in place of a text.
fn quotes_for(value: &Value) -> &'static str {
    match value {
        Value::Bool(_) => QUOTE_TEXTS,
        _ => "",
    }
}

fn is_subdomain(name: &str) -> bool {
    name.len() <= NAME && name.split('.').all(is_label_of_any_length)
}

fn is_label(name: &str) -> bool {
    name.len() <= NAMESPACE && is_label_of_any_length(name)
}

fn is_label_of_any_length(name: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = name.as_bytes();
    bytes.iter().all(|byte| letter(*byte) || *byte == b'-')
        && bytes.first().copied().is_some_and(letter)
        && bytes.last().copied().is_some_and(letter)
}
