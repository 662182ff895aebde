//! JSON patches (RFC 6902).

use serde_json::Value;

/// Why a patch cannot be made.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum JsonPatchError {
    /// It is no list of operations with what they need.
    #[error("the patch is not a list of operations as in RFC 6902: {0}")]
    Malformed(String),
    /// An operation is about a place that is not there.
    #[error("the server rejected our request due to an error in our request: {0} is not there")]
    Missing(String),
    /// A `test` found something else.
    #[error("the server rejected our request due to an error in our request: testing {0} failed")]
    Test(String),
}

/// Does the operations of a patch, all or none.
pub(crate) fn patch(value: &mut Value, operations: &Value) -> Result<(), JsonPatchError> {
    let operations = operations
        .as_array()
        .ok_or_else(|| JsonPatchError::Malformed(operations.to_string()))?;
    let mut patched = value.clone();
    for operation in operations {
        one(&mut patched, operation)?;
    }
    *value = patched;
    Ok(())
}

fn one(value: &mut Value, operation: &Value) -> Result<(), JsonPatchError> {
    let malformed = || JsonPatchError::Malformed(operation.to_string());
    let text = |name: &str| operation.get(name).and_then(Value::as_str);
    let path = text("path").ok_or_else(malformed)?;
    let given = || operation.get("value").cloned().ok_or_else(malformed);
    let from = || text("from").ok_or_else(malformed);
    let at = |value: &Value, path: &str| {
        let found = value.pointer(path).cloned();
        found.ok_or_else(|| JsonPatchError::Missing(path.to_owned()))
    };
    match text("op").ok_or_else(malformed)? {
        "add" => add(value, path, given()?),
        "remove" => remove(value, path).map(drop),
        "replace" => {
            let given = given()?;
            let place = value.pointer_mut(path);
            *place.ok_or_else(|| JsonPatchError::Missing(path.to_owned()))? = given;
            Ok(())
        }
        "move" => {
            let moved = remove(value, from()?)?;
            add(value, path, moved)
        }
        "copy" => {
            let copied = at(value, from()?)?;
            add(value, path, copied)
        }
        "test" if value.pointer(path) == Some(&given()?) => Ok(()),
        "test" => Err(JsonPatchError::Test(path.to_owned())),
        _ => Err(malformed()),
    }
}

/// The place that holds what a path names, and the last part of the path.
fn parent<'v>(value: &'v mut Value, path: &str) -> Result<(&'v mut Value, String), JsonPatchError> {
    let missing = || JsonPatchError::Missing(path.to_owned());
    let (parent, last) = path.rsplit_once('/').ok_or_else(missing)?;
    let last = last.replace("~1", "/").replace("~0", "~");
    Ok((value.pointer_mut(parent).ok_or_else(missing)?, last))
}

fn add(value: &mut Value, path: &str, added: Value) -> Result<(), JsonPatchError> {
    if path.is_empty() {
        *value = added;
        return Ok(());
    }
    let missing = || JsonPatchError::Missing(path.to_owned());
    match parent(value, path)? {
        (Value::Object(fields), name) => {
            fields.insert(name, added);
        }
        (Value::Array(items), last) if last == "-" => items.push(added),
        (Value::Array(items), last) => {
            let index: usize = last.parse().map_err(|_| missing())?;
            if index > items.len() {
                return Err(missing());
            }
            items.insert(index, added);
        }
        _ => return Err(missing()),
    }
    Ok(())
}

fn remove(value: &mut Value, path: &str) -> Result<Value, JsonPatchError> {
    let missing = || JsonPatchError::Missing(path.to_owned());
    match parent(value, path)? {
        (Value::Object(fields), name) => fields.remove(&name).ok_or_else(missing),
        (Value::Array(items), last) => {
            let index: usize = last.parse().map_err(|_| missing())?;
            if index >= items.len() {
                return Err(missing());
            }
            Ok(items.remove(index))
        }
        _ => Err(missing()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{JsonPatchError, patch};

    #[test]
    fn operations_are_done_as_rfc_6902_says() {
        let mut value = json!({"a": {"b/c": 1}, "l": [1, 3]});
        let operations = json!([
            {"op": "test", "path": "/a/b~1c", "value": 1},
            {"op": "add", "path": "/l/1", "value": 2},
            {"op": "add", "path": "/l/-", "value": 4},
            {"op": "replace", "path": "/a/b~1c", "value": null},
            {"op": "copy", "from": "/l/0", "path": "/first"},
            {"op": "move", "from": "/l/3", "path": "/last"},
            {"op": "remove", "path": "/l/0"},
        ]);
        patch(&mut value, &operations).unwrap();
        assert_eq!(
            value,
            json!({"a": {"b/c": null}, "l": [2, 3], "first": 1, "last": 4})
        );
    }

    #[test]
    fn nothing_is_done_when_one_operation_fails() {
        let mut value = json!({"a": 1});
        let operations = json!([
            {"op": "add", "path": "/b", "value": 2},
            {"op": "test", "path": "/a", "value": 2},
        ]);
        let refused = patch(&mut value, &operations);
        assert_eq!(refused, Err(JsonPatchError::Test("/a".into())));
        let refused = patch(&mut value, &json!([{"op": "remove", "path": "/c"}]));
        assert_eq!(refused, Err(JsonPatchError::Missing("/c".into())));
        assert_eq!(value, json!({"a": 1}));
    }
}
