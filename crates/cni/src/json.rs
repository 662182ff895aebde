//! JSON as the Go implementation reads and writes it.

use std::io::{self, Write};

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

/// Writes with an indent of four spaces and no newline at the end, as Go's skeleton does.
pub(crate) fn write_pretty(mut out: impl Write, value: &impl Serialize) -> io::Result<()> {
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    value.serialize(&mut serde_json::Serializer::with_formatter(
        &mut out, formatter,
    ))?;
    out.flush()
}

/// The value under a key, matched without regard to case, as Go does: the exact spelling first,
/// else the last that matches. `null` is as good as absent.
pub(crate) fn field<'v>(object: &'v Map<String, Value>, key: &str) -> Option<&'v Value> {
    object
        .get(key)
        .or_else(|| {
            object
                .iter()
                .filter(|(name, _)| name.eq_ignore_ascii_case(key))
                .map(|(_, value)| value)
                .next_back()
        })
        .filter(|value| !value.is_null())
}

/// The text under a key; empty when it is absent. `Err` says what stands there instead.
pub(crate) fn text_field<'v>(
    object: &'v Map<String, Value>,
    key: &str,
) -> Result<&'v str, &'static str> {
    match field(object, key) {
        None => Ok(""),
        Some(Value::String(text)) => Ok(text),
        Some(other) => Err(kind_of(other)),
    }
}

/// What JSON calls a value of this kind.
pub(crate) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// For serde: `null` is as good as absent, as in Go.
pub(crate) fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// The message of a parser, in Go's words where people look for them.
pub(crate) fn parser_message(error: &serde_json::Error) -> String {
    if error.is_eof() {
        "unexpected end of JSON input".to_owned()
    } else {
        error.to_string()
    }
}
