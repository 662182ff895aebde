//! What an API server checks of an object of one of our resources without CEL: what any object has,
//! and what the schema says.

mod metadata;

use serde_json::Value;

use crate::openapi::{self, normalize};
use crate::{Definition, FieldError};

/// Checks an object that says to be of one of our resources, or else should be a `NetworkQoS`. Empty
/// when nothing is wrong.
///
/// `null` where a field is optional counts as absent, as to an API server.
pub fn check_structure(object: &Value) -> Vec<FieldError> {
    let definition = Definition::of(object).unwrap_or_else(Definition::network_qos);
    let mut object = object.clone();
    normalize(&mut object, definition.schema());
    check_pruned(&object, &definition)
}

/// As [`check_structure`], of an object whose nulls are gone.
pub(crate) fn check_pruned(object: &Value, definition: &Definition) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let Value::Object(fields) = object else {
        errors.push(FieldError::new("", "an object is expected"));
        return errors;
    };
    let expected = [
        ("apiVersion", definition.api_version()),
        ("kind", definition.kind().to_owned()),
    ];
    for (name, expected) in expected {
        if fields.get(name).and_then(Value::as_str) != Some(&*expected) {
            errors.push(FieldError::new(name, format_args!("has to be {expected}")));
        }
    }
    metadata::check(fields.get("metadata"), &mut errors);
    errors.extend(openapi::check_object(fields, definition.schema()));
    errors
}
