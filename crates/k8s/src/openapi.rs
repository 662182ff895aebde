//! What an API server checks of an object by the structural schema of its definition, without CEL:
//! types, limits, closed lists, patterns, and (as with `kubectl`'s strict validation) fields that
//! nobody knows.

mod pattern;
mod prune;

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Map, Value};

use crate::FieldError;
use crate::field::{child, entry, item};

pub(crate) use prune::normalize;
#[cfg(feature = "validate")]
pub(crate) use prune::prune_unknown;

/// What an embedded object has, whatever its schema says.
const OF_EVERY_OBJECT: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Checks the fields of an object, which are those of its schema but for what every object has.
pub(crate) fn check_object(fields: &Map<String, Value>, schema: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut rest = fields.clone();
    for known in OF_EVERY_OBJECT {
        rest.remove(known);
    }
    object(&rest, schema, Fields::AllKnown, "", &mut errors);
    junctions(&Value::Object(rest), schema, "", &mut errors);
    errors
}

/// The remedy where a boolean stands in place of a text.
pub(crate) const QUOTE_TEXTS: &str =
    "; YAML reads y, n, yes, no, on and off as booleans: put quotes around a text";

/// Whether a field that a schema does not name is a mistake. Inside of `anyOf` and its like it is
/// not: what stands there adds conditions to a schema that names the fields.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fields {
    AllKnown,
    Any,
}

fn check(value: &Value, schema: &Value, known: Fields, path: &str, errors: &mut Vec<FieldError>) {
    if value.is_null() && flag(schema, "nullable") {
        return;
    }
    let wanted = schema.get("type").and_then(Value::as_str).unwrap_or("");
    if !is_of_type(value, wanted, schema) {
        let (wanted, is) = (article(wanted), article(kind_of(value)));
        let message = match value {
            Value::Number(number) if wanted == "an integer" => {
                format!("{number} is not a whole number that fits")
            }
            Value::Bool(_) if wanted == "a string" => {
                format!("{wanted} is expected, not {is}{QUOTE_TEXTS}")
            }
            _ => format!("{wanted} is expected, not {is}"),
        };
        errors.push(FieldError::new(path, message));
        return;
    }
    let words = schema.get("enum").and_then(Value::as_array);
    if let Some(words) = words.filter(|words| !words.contains(value)) {
        let words: Vec<String> = words.iter().map(plain).collect();
        let message = format!("{value} is none of {}", words.join(", "));
        errors.push(FieldError::new(path, message));
        return;
    }
    match value {
        Value::Object(fields) => object(fields, schema, known, path, errors),
        Value::Array(items) => array(items, schema, known, path, errors),
        Value::String(text) => check_text(text, schema, path, errors),
        Value::Number(number) => check_number(number, schema, path, errors),
        Value::Bool(_) | Value::Null => {}
    }
    junctions(value, schema, path, errors);
}

fn is_of_type(value: &Value, wanted: &str, schema: &Value) -> bool {
    match (wanted, value) {
        ("object", Value::Object(_))
        | ("array", Value::Array(_))
        | ("string", Value::String(_))
        | ("boolean", Value::Bool(_))
        | ("number", Value::Number(_)) => true,
        ("integer", Value::Number(number)) => whole(number).is_some(),
        ("", Value::Number(number)) if flag(schema, "x-kubernetes-int-or-string") => {
            whole(number).is_some()
        }
        ("", Value::String(_)) => true,
        ("", _) => !flag(schema, "x-kubernetes-int-or-string"),
        _ => false,
    }
}

fn object(
    fields: &Map<String, Value>,
    schema: &Value,
    known: Fields,
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
    if let Some(least) = limit(schema, "minProperties")
        && (fields.len() as i64) < least
    {
        errors.push(too_few(path, least));
    }
    let properties = schema.get("properties");
    let anything = known == Fields::Any
        || flag(schema, "x-kubernetes-preserve-unknown-fields")
        || flag(schema, "additionalProperties");
    let embedded = flag(schema, "x-kubernetes-embedded-resource");
    for (name, value) in fields {
        if let Some(schema) = properties.and_then(|named| named.get(name)) {
            check(value, schema, known, &child(path, name), errors);
        } else if let Some(schema) = schema
            .get("additionalProperties")
            .filter(|schema| schema.is_object())
        {
            check(value, schema, known, &entry(path, name), errors);
        } else if !(anything || embedded && OF_EVERY_OBJECT.contains(&&**name)) {
            errors.push(FieldError::new(child(path, name), "unknown field"));
        }
    }
}

fn array(items: &[Value], schema: &Value, known: Fields, path: &str, errors: &mut Vec<FieldError>) {
    if let Some(most) = limit(schema, "maxItems")
        && items.len() as i64 > most
    {
        errors.push(too_many(path, items.len(), most));
        return;
    }
    if let Some(least) = limit(schema, "minItems")
        && (items.len() as i64) < least
    {
        errors.push(too_few(path, least));
    }
    if let Some(schema) = schema.get("items") {
        for (index, value) in items.iter().enumerate() {
            check(value, schema, known, &item(path, index), errors);
        }
    }
    if schema.get("x-kubernetes-list-type") == Some(&"set".into()) {
        for (index, value) in items.iter().enumerate() {
            if items[..index].contains(value) {
                let message = format!("{value} is there twice");
                errors.push(FieldError::new(item(path, index), message));
            }
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
        wrong(match length {
            0 => "empty".to_owned(),
            _ => format!("{length} characters are less than {least}"),
        });
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

fn check_number(
    number: &serde_json::Number,
    schema: &Value,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    let bound = |name: &str| schema.get(name).and_then(Value::as_f64);
    let (least, most) = (bound("minimum"), bound("maximum"));
    let Some(value) = number.as_f64() else { return };
    let below = least
        .is_some_and(|least| value < least || (value == least && flag(schema, "exclusiveMinimum")));
    let above = most
        .is_some_and(|most| value > most || (value == most && flag(schema, "exclusiveMaximum")));
    if below || above {
        let message = match (least, most) {
            (Some(least), Some(most)) => format!("{number} is not between {least} and {most}"),
            (Some(least), None) => format!("{number} is less than {least}"),
            (None, most) => format!("{number} is more than {}", most.unwrap_or_default()),
        };
        errors.push(FieldError::new(path, message));
    }
    if bound("multipleOf").is_some_and(|unit| unit > 0.0 && value % unit != 0.0) {
        let message = format!("{number} is no multiple of {}", schema["multipleOf"]);
        errors.push(FieldError::new(path, message));
    }
}

/// `allOf`, `anyOf`, `oneOf`, `not`.
fn junctions(value: &Value, schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let branches = |name: &str| schema.get(name).and_then(Value::as_array);
    let holds = |schema: &&Value| {
        let mut broken = Vec::new();
        check(value, schema, Fields::Any, path, &mut broken);
        broken.is_empty()
    };
    for schema in branches("allOf").into_iter().flatten() {
        check(value, schema, Fields::Any, path, errors);
    }
    let mut wrong = |message: &str| errors.push(FieldError::new(path, message));
    if branches("anyOf").is_some_and(|all| !all.iter().any(|one| holds(&one))) {
        wrong("none of the alternatives of the schema (anyOf) fits");
    }
    if let Some(all) = branches("oneOf") {
        match all.iter().filter(holds).count() {
            1 => {}
            0 => wrong("none of the alternatives of the schema (oneOf) fits"),
            _ => wrong("more than one of the alternatives of the schema (oneOf) fits"),
        }
    }
    if schema.get("not").is_some_and(|schema| holds(&schema)) {
        wrong("has a form that the schema excludes (not)");
    }
}

fn is_time(text: &str) -> bool {
    serde_json::from_value::<Time>(text.into()).is_ok()
}

/// A number as an integer, if it is one: a server takes 1.0 for 1.
fn whole(number: &serde_json::Number) -> Option<i64> {
    let float = || number.as_f64().filter(|number| number.fract() == 0.0);
    let fits = |number: &f64| number.abs() < 9_007_199_254_740_992.0;
    number.as_i64().or_else(|| {
        // What does not fit into 64 bits is a float here.
        float().filter(fits).map(|number| number as i64)
    })
}

fn too_many(path: &str, there_are: usize, most: i64) -> FieldError {
    FieldError::new(path, format_args!("{there_are} are more than {most}"))
}

fn too_few(path: &str, least: i64) -> FieldError {
    FieldError::new(path, format_args!("at least {least} is needed"))
}

fn flag(schema: &Value, name: &str) -> bool {
    schema.get(name) == Some(&Value::Bool(true))
}

fn limit(schema: &Value, name: &str) -> Option<i64> {
    schema.get(name).and_then(Value::as_i64)
}

fn texts<'s>(schema: &'s Value, name: &str) -> impl Iterator<Item = &'s str> {
    let list = schema.get(name).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str)
}

/// A word of a closed list, without quotes.
fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

pub(crate) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

pub(crate) fn article(kind: &str) -> String {
    match kind {
        "null" => "null".to_owned(),
        "" => "an integer or a string".to_owned(),
        "object" | "array" | "integer" => format!("an {kind}"),
        _ => format!("a {kind}"),
    }
}
