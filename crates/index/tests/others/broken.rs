//! Manifests as text, and what people and programs get wrong in them.

use std::fmt::Write as _;

use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::Value;

/// Words that YAML takes for something else than text, as kubectl does.
const WORDS: [&str; 9] = ["null", "true", "false", "yes", "no", "on", "off", "y", "n"];

/// What is wrong with a manifest.
#[derive(Clone, Debug)]
pub enum Flaw {
    /// One of its values is this one instead, in JSON.
    Value(Index, &'static str),
    /// One of its fields is missing.
    Missing(Index),
    /// One of its fields has another name.
    Misspelt(Index),
    /// Somewhere in its text so many characters are missing, and these are there.
    Text(Index, usize, String),
}

/// Values that are right in one place and wrong in most others.
const VALUES: [&str; 28] = [
    "null",
    "true",
    "-1",
    "0",
    "63",
    "64",
    "101",
    "65536",
    "4294967296",
    "1.5",
    "\"\"",
    "\"a\"",
    "\"here\"",
    "\"TCP\"",
    "\"TCPx\"",
    "\"10.0.0.1\"",
    "\"10.0.0.0/8\"",
    "\"10.0.0.0/33\"",
    "\"fd00::/16\"",
    "\"[{\"",
    "\"{}\"",
    "\"shadow:9\"",
    "\"1Ki\"",
    "[]",
    "[{}]",
    "[\"fd00::1\"]",
    "{}",
    "{\"app\": \"x\"}",
];

pub fn flaw() -> impl Strategy<Value = Flaw> {
    let place = any::<Index>;
    prop_oneof![
        4 => (place(), select(&VALUES[..])).prop_map(|(place, value)| Flaw::Value(place, value)),
        2 => place().prop_map(Flaw::Missing),
        1 => place().prop_map(Flaw::Misspelt),
        2 => (place(), 0..4_usize, "[a-z:{}\\[\\]\"'\n ,0-9#&*!-]{0,4}")
            .prop_map(|(place, missing, with)| Flaw::Text(place, missing, with)),
    ]
}

/// The text of a manifest, with this flaw.
pub fn text(mut value: Value, is_json: bool, flaw: Option<&Flaw>) -> String {
    match flaw {
        Some(Flaw::Value(place, with)) => {
            let with = serde_json::from_str(with).unwrap();
            change_field(&mut value, place, |value| *value = with);
        }
        Some(Flaw::Missing(place)) => rename_field(&mut value, place, None),
        Some(Flaw::Misspelt(place)) => rename_field(&mut value, place, Some("other")),
        Some(Flaw::Text(..)) | None => {}
    }
    let mut text = String::new();
    match is_json {
        true => write!(text, "{value:#}").unwrap(),
        false => yaml(&value, 0, &mut text),
    }
    if let Some(Flaw::Text(place, missing, with)) = flaw {
        let at = place.index(text.len());
        let end = (at + missing).min(text.len());
        text.replace_range(at..end, with);
    }
    text
}

/// Changes one of all values that there are in this one.
fn change_field(value: &mut Value, place: &Index, change: impl FnOnce(&mut Value)) {
    let mut paths = Vec::new();
    note_paths(value, String::new(), &mut paths);
    let path = place.get(&paths);
    change(value.pointer_mut(path).unwrap());
}

fn rename_field(value: &mut Value, place: &Index, name: Option<&str>) {
    let mut paths = Vec::new();
    note_paths(value, String::new(), &mut paths);
    paths.retain(|path| path.contains('/'));
    let (of, field) = place.get(&paths).rsplit_once('/').unwrap();
    match value.pointer_mut(of).unwrap() {
        Value::Object(fields) => {
            let was = fields.remove(&field.replace("~1", "/")).unwrap();
            name.map(|name| fields.insert(name.to_owned(), was));
        }
        Value::Array(items) => drop(items.remove(field.parse().unwrap())),
        _ => {}
    }
}

/// The paths of a value and of all in it, as JSON has them. No name here holds a tilde.
fn note_paths(value: &Value, path: String, paths: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, inner) in fields {
                note_paths(inner, format!("{path}/{}", name.replace('/', "~1")), paths);
            }
        }
        Value::Array(items) => {
            for (place, inner) in items.iter().enumerate() {
                note_paths(inner, format!("{path}/{place}"), paths);
            }
        }
        _ => {}
    }
    paths.push(path);
}

/// As people write it: one field a line, texts without quotes where none are needed.
fn yaml(value: &Value, depth: usize, text: &mut String) {
    let indent = |text: &mut String| write!(text, "\n{:1$}", "", 2 * depth).unwrap();
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, inner) in fields {
                indent(text);
                write!(text, "{name}:").unwrap();
                yaml(inner, depth + 1, text);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for inner in items {
                indent(text);
                text.push('-');
                yaml(inner, depth + 1, text);
            }
        }
        Value::String(word) if is_plain(word) => write!(text, " {word}").unwrap(),
        other => write!(text, " {other}").unwrap(),
    }
}

fn is_plain(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_alphabetic())
        && word
            .chars()
            .all(|one| one.is_ascii_alphanumeric() || matches!(one, '.' | '/' | '-' | '_'))
        && !WORDS.contains(&word)
}
