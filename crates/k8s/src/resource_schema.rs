//! What an API server does with an object of any resource that a `CustomResourceDefinition` defines.

use kube::core::cel::{CompiledSchema, ErrorKind, Validator, apply_defaults, compile_schema};
use serde_json::Value;

use crate::FieldError;
use crate::openapi::{check_object, normalize, prune_unknown};

/// The schema of one version of a resource, its CEL rules read once.
pub struct ResourceSchema {
    schema: Value,
    rules: CompiledSchema,
}

impl ResourceSchema {
    /// The schema of an `openAPIV3Schema`, which has to be a structural one.
    pub fn new(schema: Value) -> Self {
        let rules = compile_schema(&schema);
        Self { schema, rules }
    }

    /// The `openAPIV3Schema` itself.
    pub fn document(&self) -> &Value {
        &self.schema
    }

    /// Brings an object into the form in which a server keeps it: without nulls where none may be,
    /// without unknown fields, whose paths are the answer, and with defaults.
    pub fn tidy(&self, object: &mut Value) -> Vec<String> {
        let unknown = prune_unknown(object, &self.schema);
        normalize(object, &self.schema);
        // A default may have fields that have defaults.
        loop {
            let filled = apply_defaults(&self.schema, object);
            if filled == *object {
                return unknown;
            }
            *object = filled;
        }
    }

    /// What is wrong with the form of an object without nulls; unknown fields are, too.
    pub fn check_form(&self, object: &Value) -> Vec<FieldError> {
        match object {
            Value::Object(fields) => check_object(fields, &self.schema),
            _ => vec![FieldError::new("", "an object is expected")],
        }
    }

    /// The CEL rules that an object breaks, those about what it was among them when it replaces
    /// another. Of an object of another form than the schema's only what could be evaluated is
    /// said.
    pub fn check_rules(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let well_formed = self.check_form(object).is_empty();
        let broken = Validator::new().validate_compiled(&self.rules, object, old);
        let broken = broken.err().into_iter().flatten();
        broken
            .filter(|error| well_formed || error.kind == ErrorKind::ValidationFailure)
            .map(|error| FieldError::new(error.field_path, error.message))
            .collect()
    }

    /// As a server would look at it: without nulls that it drops, and with integers as such.
    pub(crate) fn normalized(&self, object: &Value) -> Value {
        let mut object = object.clone();
        normalize(&mut object, &self.schema);
        object
    }
}
