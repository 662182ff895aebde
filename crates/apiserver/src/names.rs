//! Names, labels and annotations: what may be one.

use netqos_k8s::FieldError;
use serde_json::Value;

use crate::resource::Resource;

/// What is wrong with the metadata of an object whose types are right.
pub(crate) fn check(object: &Value, resource: &Resource) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let metadata = &object["metadata"];
    let name = metadata["name"].as_str().unwrap_or("");
    let right = match (resource.group.as_str(), resource.plural.as_str()) {
        ("rbac.authorization.k8s.io", _) => !name.is_empty() && !name.contains(['/', '%']),
        ("", "namespaces" | "services") => is_label(name),
        _ => is_subdomain(name),
    };
    if !right {
        errors.push(FieldError::new(
            "metadata.name",
            format_args!(
                "{name:?} is not a name: lower-case letters, digits, '-' and '.' make one"
            ),
        ));
    }
    let entries = |map: &str| metadata[map].as_object().into_iter().flatten();
    for (key, value) in entries("labels") {
        let value = value.as_str().unwrap_or("");
        if !is_qualified(key) {
            let message = format!("{key:?} is not the name of a label");
            errors.push(FieldError::new("metadata.labels", message));
        }
        if !is_label_value(value) {
            let message = format!("{value:?} is not the value of a label");
            errors.push(FieldError::new("metadata.labels", message));
        }
    }
    for (key, _) in entries("annotations").filter(|(key, _)| !is_qualified(&key.to_lowercase())) {
        let message = format!("{key:?} is not the name of an annotation");
        errors.push(FieldError::new("metadata.annotations", message));
    }
    let finalizers = metadata["finalizers"].as_array().into_iter().flatten();
    for finalizer in finalizers.filter_map(Value::as_str) {
        if !is_qualified(finalizer) {
            let message = format!("{finalizer:?} is not the name of a finalizer");
            errors.push(FieldError::new("metadata.finalizers", message));
        }
    }
    errors
}

fn is_subdomain(name: &str) -> bool {
    name.len() <= 253 && name.split('.').all(is_word)
}

fn is_label(name: &str) -> bool {
    name.len() <= 63 && is_word(name)
}

fn is_word(word: &str) -> bool {
    let letter = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = word.as_bytes();
    bytes.first().is_some_and(letter)
        && bytes.last().is_some_and(letter)
        && bytes.iter().all(|byte| letter(byte) || *byte == b'-')
}

/// `prefix/name`, or the name alone.
fn is_qualified(key: &str) -> bool {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    prefix.is_none_or(is_subdomain) && !name.is_empty() && is_label_value(name)
}

fn is_label_value(value: &str) -> bool {
    let bytes = value.as_bytes();
    let edge = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_alphanumeric);
    value.len() <= 63
        && edge(bytes.first())
        && edge(bytes.last())
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}
