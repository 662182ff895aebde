//! Objects that a measurement changes while it runs, and finds again as they were.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use crate::manifest::Change;
use crate::network::Files;
use crate::{LabError, agent};

/// What was changed in the folder that an agent reads.
pub(crate) struct Changed<'a> {
    files: &'a Files,
    /// Files, and what they held before; the last one first to be put back.
    before: Mutex<Vec<(PathBuf, String)>>,
}

impl<'a> Changed<'a> {
    /// Nothing yet.
    pub(crate) fn nothing(files: &'a Files) -> Self {
        Self {
            files,
            before: Mutex::default(),
        }
    }

    /// Changes an object: the agent sees it as it was, or as it is now, and nothing in between.
    pub(crate) fn make(&self, change: &Change) -> Result<(), LabError> {
        let path = agent::object_file(self.files, &change.kind, &change.name);
        let text = fs::read_to_string(&path).map_err(LabError::io("read", &path))?;
        let object: Result<Value, _> = serde_json::from_str(&text);
        let mut object = object.map_err(|why| LabError::io("understand", &path)(why.into()))?;
        merge(&mut object, &change.patch);
        let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        before.push((path.clone(), text));
        put(&path, &format!("{object:#}\n"))
    }

    /// Puts all objects back; false when none was changed.
    pub(crate) fn put_back(self) -> Result<bool, LabError> {
        let before = self.before.into_inner();
        let before = before.unwrap_or_else(PoisonError::into_inner);
        let mut backwards = before.iter().rev();
        backwards.try_for_each(|(path, text)| put(path, text))?;
        Ok(!before.is_empty())
    }
}

/// Writes a file so that it is there whole, or as it was.
pub(crate) fn put(path: &Path, text: &str) -> Result<(), LabError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let draft = path.with_file_name(format!(".{name}"));
    fs::write(&draft, text)
        .and_then(|()| fs::rename(&draft, path))
        .map_err(LabError::io("write", path))
}

/// A merge patch (RFC 7386): what it has replaces, `null` takes away, all else stays.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let Value::Object(object) = target else {
        return;
    };
    for (name, value) in fields {
        match value {
            Value::Null => drop(object.remove(name)),
            value => merge(object.entry(name).or_insert(Value::Null), value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The examples of RFC 7386, appendix A, that tell cases apart.
    #[test]
    fn a_patch_is_merged_as_the_rfc_says() {
        for (target, patch, merged) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (
                json!({"a": "b"}),
                json!({"b": "c"}),
                json!({"a": "b", "b": "c"}),
            ),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (
                json!({"a": {"b": "c"}}),
                json!({"a": {"b": "d", "c": null}}),
                json!({"a": {"b": "d"}}),
            ),
            (
                json!({"a": [1]}),
                json!({"a": [2, 3]}),
                json!({"a": [2, 3]}),
            ),
            (
                json!({}),
                json!({"a": {"bb": {"ccc": null}}}),
                json!({"a": {"bb": {}}}),
            ),
        ] {
            let mut is = target.clone();
            merge(&mut is, &patch);
            assert_eq!(is, merged, "{target} with {patch}");
        }
    }
}
