//! `values.schema.json` and `values.yaml`, from the types.

use anyhow::Context as _;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::values::Values;

/// The schema, of the draft that every Helm 3 reads.
///
/// # Errors
/// It cannot be written.
pub fn schema() -> anyhow::Result<Value> {
    let settings = SchemaSettings::draft07().with(|settings| settings.inline_subschemas = true);
    Ok(serde_json::to_value(
        settings.into_generator().into_root_schema_for::<Values>(),
    )?)
}

/// The defaults, each with its text.
///
/// # Errors
/// A field has no text.
pub fn values() -> anyhow::Result<String> {
    let mut text =
        "# Made by `cargo xtask manifests`: crates/xtask/src/manifests/values.rs.\n".to_owned();
    write(
        &schema()?,
        &serde_json::to_value(Values::default())?,
        0,
        &mut text,
    )?;
    Ok(text)
}

fn write(schema: &Value, values: &Value, depth: usize, text: &mut String) -> anyhow::Result<()> {
    let pad = "  ".repeat(depth);
    for (name, value) in values.as_object().context("an object")? {
        let about = &schema["properties"][name];
        let words = about["description"].as_str();
        let words = words.with_context(|| format!("{name} has no text"))?;
        if depth == 0 {
            text.push('\n');
        }
        for line in folded(words, 100 - pad.len()) {
            text.push_str(&format!("{pad}# {line}\n"));
        }
        match value {
            Value::Object(_) if about["properties"].is_object() => {
                text.push_str(&format!("{pad}{name}:\n"));
                write(about, value, depth + 1, text)?;
            }
            // JSON is YAML.
            _ => text.push_str(&format!("{pad}{name}: {}\n", serde_json::to_string(value)?)),
        }
    }
    Ok(())
}

/// Lines of at most so many letters.
fn folded(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.len() + word.len() < width => *line += &format!(" {word}"),
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
