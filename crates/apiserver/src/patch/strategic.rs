//! Strategic merge patches: merge patches that know which lists have keys, and directives.
//!
//! `$setElementOrder` and `$retainKeys` are read over: they decide about the order of lists, and
//! about unions, neither of which the server's own resources here depend on.

use serde_json::{Map, Value};

use crate::fields::{ListKind, Shape};

/// Merges a patch into a value.
pub(crate) fn merge(value: &mut Value, patch: &Value, shape: Shape<'_>) {
    let Value::Object(patch) = patch else {
        *value = patch.clone();
        return;
    };
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    let Value::Object(fields) = value else { return };
    match patch.get("$patch").and_then(Value::as_str) {
        Some("replace") => {
            *fields = patch.clone();
            fields.remove("$patch");
            return;
        }
        Some("delete") => {
            fields.clear();
            return;
        }
        _ => {}
    }
    for (name, patch) in patch {
        if let Some(list) = name.strip_prefix("$deleteFromPrimitiveList/") {
            if let (Some(Value::Array(items)), Value::Array(gone)) = (fields.get_mut(list), patch) {
                items.retain(|item| !gone.contains(item));
            }
        } else if name.starts_with('$') {
            continue;
        } else if patch.is_null() {
            fields.remove(name);
        } else {
            let shape = shape.field(name);
            let value = fields.entry(name.clone()).or_insert(Value::Null);
            match patch {
                Value::Array(items) => merge_list(value, items, shape),
                _ => merge(value, patch, shape),
            }
        }
    }
}

fn merge_list(value: &mut Value, patch: &[Value], shape: Shape<'_>) {
    if !value.is_array() {
        *value = Value::Array(Vec::new());
    }
    let Value::Array(items) = value else { return };
    let replaced = patch
        .iter()
        .any(|item| item.get("$patch") == Some(&"replace".into()));
    match shape.list(items.iter().chain(patch)) {
        ListKind::Map(keys) if !replaced => {
            // The merge key is one field, also where server-side apply has several.
            let Some(key) = keys.into_iter().next() else {
                return;
            };
            for patch in patch {
                let same =
                    |item: &Value| item.get(&key).is_some() && item.get(&key) == patch.get(&key);
                let at = items.iter().position(same);
                let delete = patch.get("$patch") == Some(&"delete".into());
                match (at, delete) {
                    (Some(at), true) => drop(items.remove(at)),
                    (None, true) => {}
                    (Some(at), false) => merge(&mut items[at], patch, shape.item()),
                    (None, false) => items.push(patch.clone()),
                }
            }
        }
        ListKind::Set => {
            for item in patch {
                if !items.contains(item) {
                    items.push(item.clone());
                }
            }
        }
        _ => {
            *items = patch.to_vec();
            items.retain(|item| item.get("$patch").is_none());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::merge;
    use crate::fields::Shape;

    #[test]
    fn lists_with_keys_are_merged_and_others_replaced() {
        let mut pod = json!({
            "metadata": {"finalizers": ["a/b"]},
            "spec": {"containers": [{"name": "a", "image": "1", "args": ["x"]}, {"name": "b"}]},
            "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "r"}]},
        });
        let patch = json!({
            "metadata": {"finalizers": ["c/d"], "$deleteFromPrimitiveList/finalizers": ["a/b"]},
            "spec": {
                "$setElementOrder/containers": [{"name": "a"}],
                "containers": [
                    {"name": "a", "args": ["y"]},
                    {"name": "b", "$patch": "delete"},
                    {"name": "c"},
                ],
            },
            "status": {"conditions": [{"type": "Ready", "status": "True", "reason": null}]},
        });
        merge(&mut pod, &patch, Shape::built_in("pods"));
        assert_eq!(
            pod,
            json!({
                "metadata": {"finalizers": ["c/d"]},
                "spec": {"containers": [{"name": "a", "image": "1", "args": ["y"]}, {"name": "c"}]},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]},
            })
        );
    }
}
