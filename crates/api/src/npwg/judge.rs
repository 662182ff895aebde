//! A NetworkAttachmentDefinition's configuration as it is judged, and refusals as messages name them.

use std::fmt;

use netqos_core::OneLine;
use serde_json::{Map, Value, json};

use super::{AttachmentNeeds, digest};

/// The number of refusals of one NetworkAttachmentDefinition that a message names. A tenant writes any number of them.
pub const MOST_NAMED: usize = 5;

/// The longest text of one, in characters.
const MOST_CHARACTERS: usize = 200;

/// Reads a configuration as a list of plugins. One without a name gets that of its NetworkAttachmentDefinition.
///
/// # Errors
/// Returns an error if the text is not a JSON object.
pub fn config_list(config: &str, name: &str) -> Result<Map<String, Value>, serde_json::Error> {
    let mut list: Map<String, Value> = serde_json::from_str(config)?;
    let own = list.get("name").and_then(Value::as_str);
    if own.is_none_or(str::is_empty) {
        list.insert("name".to_owned(), name.into());
    }
    if list.contains_key("plugins") {
        return Ok(list);
    }
    let of_list = ["name", "cniVersion"].map(|key| (key.to_owned(), list.get(key).cloned()));
    let of_list = of_list
        .into_iter()
        .filter_map(|(key, value)| Some((key, value?)));
    let mut single: Map<String, Value> = of_list.collect();
    single.insert("plugins".to_owned(), json!([list]));
    Ok(single)
}

impl AttachmentNeeds {
    /// Returns the needs of a NetworkAttachmentDefinition of this `spec.config` and name, before a pod writes anything
    /// into it.
    ///
    /// # Errors
    /// Returns an error if the text is not a JSON object.
    pub fn of_nad(config: &str, name: &str) -> Result<Self, serde_json::Error> {
        let text = config.trim();
        let list = config_list(text, name)?;
        let has_plugins = list.get("plugins") != Some(&json!([]));
        let mut needs = Self::of(&Value::Object(list).to_string())?;
        if !has_plugins {
            let why = "the list has no plugins".to_owned();
            needs.refused.push(("plugins".to_owned(), why));
        }
        needs.digest = digest(text);
        Ok(needs)
    }
}

/// Returns the first [`MOST_NAMED`] of these, each shortened and in one line, and the number of the others.
pub fn first_named<T: fmt::Display>(all: impl IntoIterator<Item = T>) -> (Vec<String>, usize) {
    let mut all = all.into_iter();
    let named = all.by_ref().take(MOST_NAMED);
    let named = named.map(|it| shortened(&it.to_string())).collect();
    (named, all.count())
}

/// Returns the first [`MOST_NAMED`] of these and the number of the others as one line.
pub fn summary<T: fmt::Display>(all: impl IntoIterator<Item = T>) -> String {
    match first_named(all) {
        (named, 0) => named.join("; "),
        (named, more) => format!("{}; and {more} more", named.join("; ")),
    }
}

fn shortened(text: &str) -> String {
    let text: String = match text.char_indices().nth(MOST_CHARACTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    };
    OneLine(text).to_string()
}
