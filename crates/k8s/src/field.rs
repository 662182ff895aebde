//! A mistake in an object, and where in it.

use std::fmt;

use serde::Serialize;

/// A field that says something wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, thiserror::Error)]
#[error("{path}: {message}")]
pub struct FieldError {
    /// The field, from the root of the object: `spec.egress[0].bandwidth.burst`.
    pub path: String,
    /// What is wrong with it, and what would be right.
    pub message: String,
}

impl FieldError {
    /// A mistake in the field of this path.
    pub fn new(path: impl Into<String>, message: impl fmt::Display) -> Self {
        Self {
            path: path.into(),
            message: message.to_string(),
        }
    }

    /// The mistake, seen from the object that holds the one that it was found in.
    pub(crate) fn inside(mut self, outer: &str) -> Self {
        self.path = child(outer, &self.path);
        self
    }
}

/// The path of a field of the object at a path.
pub(crate) fn child(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else if name.starts_with('[') || name.is_empty() {
        format!("{path}{name}")
    } else {
        format!("{path}.{name}")
    }
}

/// The path of an item of the list at a path.
pub(crate) fn item(path: &str, index: usize) -> String {
    format!("{path}[{index}]")
}

/// The path of a label or an annotation, whose names have dots in them.
pub(crate) fn entry(path: &str, key: &str) -> String {
    format!("{path}[{key}]")
}
