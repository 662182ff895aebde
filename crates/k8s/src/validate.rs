//! What an API server says to an object of one of our resources, without an API server: its schema,
//! then its CEL rules, both taken from the definition that a server gets.

use std::sync::LazyLock;

use serde_json::Value;

use crate::convert::Modes;
use crate::field::entry;
use crate::resource_schema::ResourceSchema;
use crate::structural::check_pruned;
use crate::{Definition, FieldError, MODE_ANNOTATION, definitions, object_from_value};

static SCHEMAS: LazyLock<Vec<(Definition, ResourceSchema)>> = LazyLock::new(|| {
    let all = definitions().into_iter();
    all.map(|it| (it.clone(), ResourceSchema::new(it.schema().clone())))
        .collect()
});

/// What is wrong with a new object of one of our resources, or of what should be a `NetworkQoS`;
/// nothing when a server with strict field validation would take it. Beyond that is checked what no
/// schema reaches: the annotation `netqos.io/mode`, and quantities and durations that are out of
/// range.
pub fn validate(object: &Value) -> Vec<FieldError> {
    check(object, None)
}

/// What is wrong with an object that replaces another: also what may not change.
pub fn validate_update(object: &Value, old: &Value) -> Vec<FieldError> {
    check(object, Some(old))
}

fn check(object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let definition = Definition::of(object).unwrap_or_else(Definition::network_qos);
    let mut schemas = SCHEMAS.iter();
    let Some((_, schema)) = schemas.find(|(it, _)| it.file() == definition.file()) else {
        return Vec::new();
    };
    let object = schema.normalized(object);
    let old = old.map(|old| schema.normalized(old));
    let mut errors = check_pruned(&object, &definition);
    // A server runs no rule on an object of another shape. Here those that can be evaluated are, so
    // that all that is wrong is said at once.
    errors.extend(schema.check_rules(&object, old.as_ref()));
    errors.extend(mode(&object));
    if errors.is_empty() {
        errors.extend(object_from_value(&object).err().into_iter().flatten());
    }
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
