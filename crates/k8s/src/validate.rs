//! What an API server says to a `NetworkQoS`, without an API server: its schema, then its CEL rules,
//! both taken from the definition that a server gets.

use std::sync::LazyLock;

use kube::core::cel::{CompiledSchema, ErrorKind, Validator, compile_schema};
use serde_json::Value;

use crate::convert::Modes;
use crate::field::entry;
use crate::structural::{check_pruned, prune_nulls};
use crate::{FieldError, MODE_ANNOTATION, crd};

static RULES: LazyLock<CompiledSchema> = LazyLock::new(|| compile_schema(crd::schema()));

/// What is wrong with a new object; nothing when a server with strict field validation would take
/// it. Beyond that, the annotation `netqos.io/mode` is checked, which no schema reaches.
pub fn validate(object: &Value) -> Vec<FieldError> {
    check(object, None)
}

/// What is wrong with an object that replaces another: also what may not change.
pub fn validate_update(object: &Value, old: &Value) -> Vec<FieldError> {
    check(object, Some(old))
}

fn check(object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut object = object.clone();
    prune_nulls(&mut object, crd::schema());
    let old = old.map(|old| {
        let mut old = old.clone();
        prune_nulls(&mut old, crd::schema());
        old
    });
    let mut errors = check_pruned(&object);
    let structured = errors.is_empty();
    // A server runs no rule on an object of another shape. Here those that can be evaluated are, so
    // that all that is wrong is said at once.
    if let Err(broken) = Validator::new().validate_compiled(&RULES, &object, old.as_ref()) {
        let told = broken
            .into_iter()
            .filter(|error| structured || error.kind == ErrorKind::ValidationFailure);
        errors.extend(told.map(|error| FieldError::new(error.field_path, error.message)));
    }
    errors.extend(mode(&object));
    errors
}

fn mode(object: &Value) -> Option<FieldError> {
    let annotations = object.get("metadata")?.get("annotations")?;
    let text = annotations.get(MODE_ANNOTATION)?.as_str()?;
    let rules = object.get("spec")?.get("egress")?.as_array()?.len();
    let path = entry("metadata.annotations", MODE_ANNOTATION);
    Modes::parse(text, rules)
        .err()
        .map(|message| FieldError::new(path, message))
}
