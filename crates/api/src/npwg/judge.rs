//! A NetworkAttachmentDefinition's configuration as it is judged.

use serde_json::{Map, Value, json};

use super::{AttachmentNeeds, digest};

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
