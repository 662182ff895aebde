//! JSON objects whose keys are found without regard to case, and errors that say where.

use serde_json::{Map, Value};

use super::BandwidthConfigError;

/// An object of the configuration, and where in it.
pub(super) struct Object<'c> {
    /// The names of the objects around, with a dot behind each; empty for the outermost.
    prefix: String,
    fields: &'c Map<String, Value>,
}

impl<'c> Object<'c> {
    /// The whole configuration.
    pub(super) const fn root(fields: &'c Map<String, Value>) -> Self {
        Self {
            prefix: String::new(),
            fields,
        }
    }

    /// The field's name for messages: `runtimeConfig.bandwidth.ingressRate`.
    pub(super) fn path_of(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }

    /// All fields, as they are written.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&'c String, &'c Value)> {
        self.fields.iter()
    }

    /// True when the key is there, even with `null`.
    pub(super) fn has(&self, key: &str) -> bool {
        self.find(key).is_some()
    }

    /// True when the key is there with anything but `null` and the empty list.
    pub(super) fn has_elements(&self, key: &str) -> bool {
        self.get(key)
            .is_some_and(|value| value.as_array().is_none_or(|list| !list.is_empty()))
    }

    /// The value of the key, unless it is `null`.
    pub(super) fn get(&self, key: &str) -> Option<&'c Value> {
        self.find(key).filter(|value| !value.is_null())
    }

    /// The object of this key.
    pub(super) fn object(&self, key: &str) -> Result<Option<Self>, BandwidthConfigError> {
        self.typed(key, "object", Value::as_object).map(|found| {
            found.map(|fields| Self {
                prefix: format!("{}{key}.", self.prefix),
                fields,
            })
        })
    }

    /// The string of this key, unless it is empty.
    pub(super) fn text(&self, key: &str) -> Result<Option<&'c str>, BandwidthConfigError> {
        self.typed(key, "string", Value::as_str)
            .map(|found| found.filter(|text| !text.is_empty()))
    }

    /// The whole number of this key; zero when it is absent.
    pub(super) fn unsigned(&self, key: &str) -> Result<u64, BandwidthConfigError> {
        self.typed(key, "uint64", Value::as_u64)
            .map(Option::unwrap_or_default)
    }

    /// The error that this field's value is not of the type that is expected.
    pub(super) fn type_error(
        &self,
        key: &str,
        value: &Value,
        expected: &'static str,
    ) -> BandwidthConfigError {
        BandwidthConfigError::Type {
            field: self.path_of(key),
            found: describe(value),
            expected,
        }
    }

    fn typed<T>(
        &self,
        key: &str,
        expected: &'static str,
        read: impl FnOnce(&'c Value) -> Option<T>,
    ) -> Result<Option<T>, BandwidthConfigError> {
        self.get(key)
            .map(|value| read(value).ok_or_else(|| self.type_error(key, value, expected)))
            .transpose()
    }

    /// The exact spelling, or else the last one that differs from it only in case.
    fn find(&self, key: &str) -> Option<&'c Value> {
        self.fields.get(key).or_else(|| {
            self.fields
                .iter()
                .rfind(|(candidate, _)| candidate.eq_ignore_ascii_case(key))
                .map(|(_, value)| value)
        })
    }
}

/// The value for messages: scalars whole, as they are short; the others by their type.
fn describe(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => format!("bool {value}"),
        Value::Number(value) => format!("number {value}"),
        Value::String(value) => format!("string {value:?}"),
        Value::Array(_) => "array".to_owned(),
        Value::Object(_) => "object".to_owned(),
    }
}
