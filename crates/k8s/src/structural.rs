//! What an API server checks of a `NetworkQoS` without CEL: what any object has, and what the schema
//! says.

mod metadata;

use serde_json::Value;

use crate::openapi::{self, normalize};
use crate::{FieldError, crd};

/// The group and version of [`NetworkQoS`](crate::NetworkQoS).
const API_VERSION: &str = "k8s.ovn.org/v1alpha1";

/// Checks an object that says to be a `NetworkQoS`. Empty when nothing is wrong.
///
/// `null` where a field is optional counts as absent, as to an API server.
pub fn check_structure(object: &Value) -> Vec<FieldError> {
    let mut object = object.clone();
    normalize(&mut object, crd::schema());
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
    errors.extend(openapi::check_object(fields, crd::schema()));
    errors
}
