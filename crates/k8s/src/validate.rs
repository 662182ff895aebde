//! What an API server says to a `NetworkQoS`, without an API server: its schema, then its CEL rules,
//! both taken from the definition that a server gets.

use std::sync::LazyLock;

use serde_json::Value;

use crate::convert::Modes;
use crate::field::entry;
use crate::resource_schema::ResourceSchema;
use crate::structural::check_pruned;
use crate::{FieldError, MODE_ANNOTATION, crd};

static SCHEMA: LazyLock<ResourceSchema> =
    LazyLock::new(|| ResourceSchema::new(crd::schema().clone()));

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
    let object = SCHEMA.normalized(object);
    let old = old.map(|old| SCHEMA.normalized(old));
    let mut errors = check_pruned(&object);
    // A server runs no rule on an object of another shape. Here those that can be evaluated are, so
    // that all that is wrong is said at once.
    errors.extend(SCHEMA.check_rules(&object, old.as_ref()));
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
