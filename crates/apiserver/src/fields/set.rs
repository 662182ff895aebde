//! A set of fields, as `fieldsV1` writes it.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// A set of paths into an object. The parts of a path are `f:NAME`, `k:{keys of a list's item}` and
/// `v:VALUE`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSet {
    /// Whether the path up to here is one of the set.
    pub(crate) member: bool,
    pub(crate) children: BTreeMap<String, FieldSet>,
}

impl FieldSet {
    /// The set of the path up to here alone.
    pub(crate) fn leaf() -> Self {
        Self {
            member: true,
            children: BTreeMap::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.member && self.children.values().all(Self::is_empty)
    }

    pub(crate) fn insert(&mut self, part: String, set: Self) {
        if !set.is_empty() {
            self.children.insert(part, set);
        }
    }

    /// What is in either.
    pub(crate) fn union(mut self, other: &Self) -> Self {
        self.member |= other.member;
        for (part, theirs) in &other.children {
            let ours = self.children.remove(part).unwrap_or_default();
            self.children.insert(part.clone(), ours.union(theirs));
        }
        self
    }

    /// What is in both.
    pub(crate) fn intersection(&self, other: &Self) -> Self {
        let mut both = Self {
            member: self.member && other.member,
            ..Self::default()
        };
        for (part, ours) in &self.children {
            if let Some(theirs) = other.children.get(part) {
                both.insert(part.clone(), ours.intersection(theirs));
            }
        }
        both
    }

    /// What is in this one only.
    pub(crate) fn without(&self, other: &Self) -> Self {
        let mut rest = Self {
            member: self.member && !other.member,
            ..Self::default()
        };
        for (part, ours) in &self.children {
            let ours = match other.children.get(part) {
                Some(theirs) => ours.without(theirs),
                None => ours.clone(),
            };
            rest.insert(part.clone(), ours);
        }
        rest
    }

    /// As [`without`](Self::without), and without what is below a path of the other.
    pub(crate) fn without_below(&self, other: &Self) -> Self {
        if other.member {
            return Self::default();
        }
        let mut rest = Self {
            member: self.member,
            ..Self::default()
        };
        for (part, ours) in &self.children {
            let ours = match other.children.get(part) {
                Some(theirs) => ours.without_below(theirs),
                None => ours.clone(),
            };
            rest.insert(part.clone(), ours);
        }
        rest
    }

    /// Every path, written as a server writes it: `.spec.ports[port=80].name`.
    pub(crate) fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect("", &mut paths);
        paths
    }

    fn collect(&self, path: &str, paths: &mut Vec<String>) {
        if self.member {
            paths.push(path.to_owned());
        }
        for (part, child) in &self.children {
            child.collect(&format!("{path}{}", written(part)), paths);
        }
    }

    /// As `fieldsV1`.
    pub(crate) fn to_json(&self) -> Value {
        let mut fields = Map::new();
        if self.member && !self.children.is_empty() {
            fields.insert(".".into(), json!({}));
        }
        for (part, child) in &self.children {
            fields.insert(part.clone(), child.to_json());
        }
        Value::Object(fields)
    }

    /// From `fieldsV1`.
    pub(crate) fn from_json(json: &Value) -> Self {
        let mut root = Self::read(json);
        root.member = false;
        root
    }

    fn read(json: &Value) -> Self {
        let Some(fields) = json.as_object() else {
            return Self::leaf();
        };
        let children = fields.iter().filter(|(part, _)| *part != ".");
        Self {
            member: fields.is_empty() || fields.contains_key("."),
            children: children
                .map(|(part, child)| (part.clone(), Self::read(child)))
                .collect(),
        }
    }
}

fn written(part: &str) -> String {
    match part.split_once(':') {
        Some(("k", keys)) => {
            let keys: Map<String, Value> = serde_json::from_str(keys).unwrap_or_default();
            let keys: Vec<String> = keys
                .iter()
                .map(|(key, value)| format!("{key}={value}"))
                .collect();
            format!("[{}]", keys.join(","))
        }
        Some(("v", value)) => format!("[={value}]"),
        Some((_, name)) => format!(".{name}"),
        None => part.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::FieldSet;

    #[test]
    fn a_set_is_read_and_written_as_kubernetes_does() {
        let written = json!({
            "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
            "f:spec": {"f:ports": {"k:{\"port\":80}": {".": {}, "f:name": {}}}},
        });
        let set = FieldSet::from_json(&written);
        assert_eq!(set.to_json(), written);
        assert_eq!(
            set.paths(),
            [
                ".metadata.labels",
                ".metadata.labels.a",
                ".spec.ports[port=80]",
                ".spec.ports[port=80].name",
            ]
        );
    }

    #[test]
    fn sets_are_added_and_taken_from_each_other() {
        let one = FieldSet::from_json(&json!({"f:a": {"f:b": {}, "f:c": {}}}));
        let two = FieldSet::from_json(&json!({"f:a": {"f:c": {}}, "f:d": {}}));
        assert_eq!(one.intersection(&two).paths(), [".a.c"]);
        assert_eq!(one.without(&two).paths(), [".a.b"]);
        assert_eq!(one.clone().union(&two).paths(), [".a.b", ".a.c", ".d"]);
        let whole = FieldSet::from_json(&json!({"f:a": {}}));
        assert_eq!(one.without(&whole).paths(), [".a.b", ".a.c"]);
        assert!(one.without_below(&whole).is_empty());
    }
}
