//! The fields that a value sets, and those by which two values differ.

use std::collections::BTreeMap;

use serde_json::Value;

use super::set::FieldSet;
use super::shape::{ListKind, Shape};

/// By which fields a value became another.
#[derive(Clone, Debug, Default)]
pub(crate) struct Difference {
    /// New ones, and those with another value.
    pub(crate) set: FieldSet,
    /// Those that are gone; what was below them is gone, too.
    pub(crate) gone: FieldSet,
}

/// The fields that a value sets: its leaves, and the items of lists with keys.
pub(crate) fn fields_of(value: &Value, shape: Shape<'_>) -> FieldSet {
    let mut set = FieldSet::default();
    match value {
        Value::Object(fields) if !fields.is_empty() && !shape.is_atomic() => {
            for (name, value) in fields {
                set.insert(format!("f:{name}"), fields_of(value, shape.field(name)));
            }
        }
        Value::Array(items) if !items.is_empty() => match shape.list(items) {
            ListKind::Atomic => return FieldSet::leaf(),
            ListKind::Set => {
                for item in items {
                    set.insert(format!("v:{item}"), FieldSet::leaf());
                }
            }
            ListKind::Map(keys) => {
                for item in items {
                    let mut fields = fields_of(item, shape.item());
                    fields.member = true;
                    set.insert(shape.item_part(&keys, item), fields);
                }
            }
        },
        _ => return FieldSet::leaf(),
    }
    set
}

/// By what `new` differs from `old`.
pub(crate) fn difference(old: &Value, new: &Value, shape: Shape<'_>) -> Difference {
    let mut found = Difference::default();
    if old == new {
        return found;
    }
    let (old, new) = match (parts(old, shape, new), parts(new, shape, old)) {
        (Some(old), Some(new)) => (old, new),
        _ => {
            found.set = fields_of(new, shape);
            return found;
        }
    };
    for (part, (value, shape)) in &new {
        match old.get(part) {
            None => {
                let mut fields = fields_of(value, *shape);
                fields.member |= part.starts_with("k:");
                found.set.insert(part.clone(), fields);
            }
            Some((before, _)) => {
                let inner = difference(before, value, *shape);
                found.set.insert(part.clone(), inner.set);
                found.gone.insert(part.clone(), inner.gone);
            }
        }
    }
    for part in old.keys().filter(|part| !new.contains_key(*part)) {
        found.gone.insert(part.clone(), FieldSet::leaf());
    }
    found
}

type Parts<'v> = BTreeMap<String, (&'v Value, Shape<'v>)>;

/// What a value is made of; `None` when it is of one piece. What a list is may show only in the
/// other one.
fn parts<'v>(value: &'v Value, shape: Shape<'v>, other: &'v Value) -> Option<Parts<'v>> {
    match value {
        Value::Object(fields) if !shape.is_atomic() => Some(
            fields
                .iter()
                .map(|(name, value)| (format!("f:{name}"), (value, shape.field(name))))
                .collect(),
        ),
        Value::Array(items) => {
            let others = other.as_array().into_iter().flatten();
            match shape.list(items.iter().chain(others)) {
                ListKind::Atomic => None,
                ListKind::Set => Some(
                    items
                        .iter()
                        .map(|item| (format!("v:{item}"), (item, Shape::Unknown)))
                        .collect(),
                ),
                ListKind::Map(keys) => Some(
                    items
                        .iter()
                        .map(|item| (shape.item_part(&keys, item), (item, shape.item())))
                        .collect(),
                ),
            }
        }
        _ => None,
    }
}
