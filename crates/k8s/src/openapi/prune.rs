//! What an API server makes of an object before it looks at it.

use serde_json::Value;

use super::whole;
#[cfg(feature = "validate")]
use super::{OF_EVERY_OBJECT, flag};
#[cfg(feature = "validate")]
use crate::field::{child, item};

/// Takes away every `null` that stands where the schema has an optional field that is not
/// `nullable`, and writes an integer as one: a server takes `1.0` for 1.
pub(crate) fn normalize(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, value| {
                let Some(schema) = field_schema(schema, name) else {
                    return true;
                };
                normalize(value, schema);
                !value.is_null() || schema.get("nullable") == Some(&Value::Bool(true))
            });
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                items.iter_mut().for_each(|value| normalize(value, schema));
            }
        }
        Value::Number(number) if number.is_f64() => {
            let is_integer = schema.get("type").is_some_and(|it| it == "integer");
            if let Some(whole) = whole(number).filter(|_| is_integer) {
                *value = whole.into();
            }
        }
        _ => {}
    }
}

fn field_schema<'s>(schema: &'s Value, name: &str) -> Option<&'s Value> {
    let known = schema.get("properties").and_then(|known| known.get(name));
    known.or_else(|| schema.get("additionalProperties"))
}

/// Takes away every field that the schema does not know, and says which: a server does so on every
/// write. At the top, what every object has is known.
#[cfg(feature = "validate")]
pub(crate) fn prune_unknown(object: &mut Value, schema: &Value) -> Vec<String> {
    let mut gone = Vec::new();
    prune(object, schema, true, "", &mut gone);
    gone
}

#[cfg(feature = "validate")]
fn prune(value: &mut Value, schema: &Value, object: bool, path: &str, gone: &mut Vec<String>) {
    let keep = flag(schema, "x-kubernetes-preserve-unknown-fields");
    match value {
        Value::Object(fields) => {
            let of_every_object = object || flag(schema, "x-kubernetes-embedded-resource");
            let others = schema.get("additionalProperties");
            fields.retain(|name, value| {
                let path = child(path, name);
                if of_every_object && OF_EVERY_OBJECT.contains(&&**name) {
                    return true;
                }
                let named = schema.get("properties").and_then(|known| known.get(name));
                if let Some(schema) = named.or_else(|| others.filter(|schema| schema.is_object())) {
                    prune(value, schema, false, &path, gone);
                    return true;
                }
                let known = keep || others == Some(&Value::Bool(true));
                if !known {
                    gone.push(path);
                }
                known
            });
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                for (index, value) in items.iter_mut().enumerate() {
                    prune(value, schema, false, &item(path, index), gone);
                }
            }
        }
        _ => {}
    }
}
