//! The functions that the chart uses, as Helm has them.

use anyhow::{Context as _, bail};
use serde_json::Value;

/// Calls one; what was piped is the last argument.
pub fn call(name: &str, arguments: &[Value]) -> anyhow::Result<Value> {
    Ok(match (name, arguments) {
        ("default", [fallback, value]) => if is_true(value) { value } else { fallback }.clone(),
        ("quote", [Value::String(text)]) => Value::String(serde_json::to_string(text)?),
        ("quote", [value @ (Value::Number(_) | Value::Bool(_))]) => {
            Value::String(format!("\"{value}\""))
        }
        ("toYaml", [value]) => {
            let text = serde_saphyr::to_string(value)?;
            Value::String(text.trim_end_matches('\n').to_owned())
        }
        ("nindent", [Value::Number(spaces), Value::String(text)]) => {
            let spaces = spaces.as_u64().context("how many spaces")?;
            let pad = " ".repeat(usize::try_from(spaces)?);
            let lines: Vec<String> = text
                .split('\n')
                .map(|line| format!("{pad}{line}"))
                .collect();
            Value::String(format!("\n{}", lines.join("\n")))
        }
        ("join", [Value::String(between), Value::Array(items)]) => {
            let texts = items.iter().map(|item| item.as_str().context("no text"));
            let texts: Vec<&str> = texts.collect::<anyhow::Result<_>>()?;
            Value::String(texts.join(between))
        }
        ("has", [item, Value::Array(items)]) => Value::Bool(items.contains(item)),
        ("eq", [one, other]) => Value::Bool(one == other),
        ("not", [value]) => Value::Bool(!is_true(value)),
        // Both give the value that decided.
        ("and", [.., last]) => {
            let failing = arguments.iter().find(|value| !is_true(value));
            failing.unwrap_or(last).clone()
        }
        ("or", [.., last]) => arguments
            .iter()
            .find(|value| is_true(value))
            .unwrap_or(last)
            .clone(),
        _ => bail!("not known here with {arguments:?}"),
    })
}

/// Whether a value is neither zero nor empty.
pub fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(truth) => *truth,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    }
}
