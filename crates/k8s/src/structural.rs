//! What an API server checks of a `NetworkQoS` without CEL: types, limits, closed lists, patterns,
//! and (as with `kubectl`'s strict validation) fields that nobody knows.
//!
//! Understood is what the schema of this crate uses; a test holds it to that.

mod metadata;
mod pattern;

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::field::{child, entry, item};
use crate::{FieldError, crd};

/// The group and version of [`NetworkQoS`](crate::NetworkQoS).
const API_VERSION: &str = "k8s.ovn.org/v1alpha1";

/// Checks an object that says to be a `NetworkQoS`. Empty when nothing is wrong.
///
/// `null` where a field is optional counts as absent, as to an API server.
pub fn check_structure(object: &Value) -> Vec<FieldError> {
    let mut object = object.clone();
    prune_nulls(&mut object, crd::schema());
    check_pruned(&object)
}

/// As [`check_structure`], of an object whose nulls are gone.
pub(crate) fn check_pruned(object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let Value::Object(fields) = object else {
        errors.push(FieldError::new("", "an object is expected"));
        return errors;
    };
    for (name, expected) in [("apiVersion", API_VERSION), ("kind", "NetworkQoS")] {
        if fields.get(name).and_then(Value::as_str) != Some(expected) {
            errors.push(FieldError::new(name, format_args!("has to be {expected}")));
        }
    }
    metadata::check(fields.get("metadata"), &mut errors);
    let mut rest = fields.clone();
    for known in ["apiVersion", "kind", "metadata"] {
        rest.remove(known);
    }
    check_object(&rest, crd::schema(), "", &mut errors);
    errors
}

/// Takes away every `null` that stands where the schema has an optional field.
pub(crate) fn prune_nulls(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, value| {
                let Some(schema) = field_schema(schema, name) else {
                    return true;
                };
                prune_nulls(value, schema);
                !value.is_null()
            });
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                items
                    .iter_mut()
                    .for_each(|value| prune_nulls(value, schema));
            }
        }
        _ => {}
    }
}

fn field_schema<'s>(schema: &'s Value, name: &str) -> Option<&'s Value> {
    let known = schema.get("properties").and_then(|known| known.get(name));
    known.or_else(|| schema.get("additionalProperties"))
}

fn check(value: &Value, schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let mut wrong = |message: String| errors.push(FieldError::new(path, message));
    let wanted = schema.get("type").and_then(Value::as_str).unwrap_or("");
    match (wanted, value) {
        ("object", Value::Object(fields)) => check_object(fields, schema, path, errors),
        ("array", Value::Array(items)) => check_array(items, schema, path, errors),
        ("string", Value::String(text)) => check_text(text, schema, path, errors),
        ("integer", Value::Number(number)) => match number.as_i64() {
            Some(number) => check_number(number, schema, path, errors),
            None => wrong(format!("{number} is not a whole number that fits")),
        },
        _ => wrong(format!(
            "{} is expected, not {}",
            article(wanted),
            article(kind_of(value))
        )),
    }
}

fn check_object(
    fields: &Map<String, Value>,
    schema: &Value,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    for name in texts(schema, "required") {
        if !fields.contains_key(name) {
            errors.push(FieldError::new(child(path, name), "missing"));
        }
    }
    if let Some(most) = limit(schema, "maxProperties")
        && fields.len() as i64 > most
    {
        errors.push(too_many(path, fields.len(), most));
    }
    let properties = schema.get("properties");
    for (name, value) in fields {
        if let Some(schema) = properties.and_then(|known| known.get(name)) {
            check(value, schema, &child(path, name), errors);
        } else if let Some(schema) = schema.get("additionalProperties") {
            check(value, schema, &entry(path, name), errors);
        } else {
            errors.push(FieldError::new(child(path, name), "unknown field"));
        }
    }
}

fn check_array(items: &[Value], schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    if let Some(most) = limit(schema, "maxItems")
        && items.len() as i64 > most
    {
        errors.push(too_many(path, items.len(), most));
        return;
    }
    if let Some(least) = limit(schema, "minItems")
        && (items.len() as i64) < least
    {
        let message = format!("at least {least} is needed");
        errors.push(FieldError::new(path, message));
    }
    if let Some(schema) = schema.get("items") {
        for (index, value) in items.iter().enumerate() {
            check(value, schema, &item(path, index), errors);
        }
    }
    let keys: Vec<&str> = texts(schema, "x-kubernetes-list-map-keys").collect();
    if !keys.is_empty() {
        let mut seen = BTreeSet::new();
        for (index, value) in items.iter().enumerate() {
            let key: Vec<String> = keys
                .iter()
                .map(|key| value.get(key).map_or_else(String::new, Value::to_string))
                .collect();
            if !seen.insert(key.clone()) {
                let message = format!("there is another one with {} {}", keys[0], key[0]);
                errors.push(FieldError::new(item(path, index), message));
            }
        }
    }
}

fn check_text(text: &str, schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let mut wrong = |message: String| errors.push(FieldError::new(path, message));
    let words: Vec<&str> = texts(schema, "enum").collect();
    if !words.is_empty() && !words.contains(&text) {
        wrong(format!("{text:?} is none of {}", words.join(", ")));
        return;
    }
    let length = text.chars().count() as i64;
    if let Some(most) = limit(schema, "maxLength")
        && length > most
    {
        wrong(format!("{length} characters are more than {most}"));
        return;
    }
    if let Some(least) = limit(schema, "minLength")
        && length < least
    {
        wrong("empty".to_owned());
    }
    if let Some(expected) = schema.get("pattern").and_then(Value::as_str)
        && !pattern::matches(expected, text)
    {
        wrong(format!("{text:?} does not match {expected}"));
    }
    if schema.get("format").and_then(Value::as_str) == Some("date-time") && !is_time(text) {
        wrong(format!("{text:?} is not a time as in RFC 3339"));
    }
}

fn check_number(number: i64, schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let least = limit(schema, "minimum").unwrap_or(i64::MIN);
    let most = limit(schema, "maximum").unwrap_or(i64::MAX);
    if !(least..=most).contains(&number) {
        let message = match (least, most) {
            (least, i64::MAX) => format!("{number} is less than {least}"),
            (least, most) => format!("{number} is not between {least} and {most}"),
        };
        errors.push(FieldError::new(path, message));
    }
}

fn is_time(text: &str) -> bool {
    serde_json::from_value::<k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>(text.into())
        .is_ok()
}

fn too_many(path: &str, there_are: usize, most: i64) -> FieldError {
    FieldError::new(path, format_args!("{there_are} are more than {most}"))
}

fn limit(schema: &Value, name: &str) -> Option<i64> {
    schema.get(name).and_then(Value::as_i64)
}

fn texts<'s>(schema: &'s Value, name: &str) -> impl Iterator<Item = &'s str> {
    let list = schema.get(name).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str)
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn article(kind: &str) -> String {
    match kind {
        "null" => "null".to_owned(),
        "object" | "array" | "integer" => format!("an {kind}"),
        _ => format!("a {kind}"),
    }
}
