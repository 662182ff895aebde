//! Server-side apply: merges what a manager wants, by who owns what.

use serde_json::{Value, json};

use super::diff::{difference, fields_of};
use super::managed::{Manager, Owners, ownable};
use super::set::FieldSet;
use super::shape::{ListKind, Shape};
use crate::status::Refusal;

/// The object with what a manager applies: its fields set, those that it applied before and does not
/// any more taken away where nobody else owns them, and its ownership noted.
///
/// # Errors
/// 409 when others own a field whose value would change, and it is not forced.
pub(crate) fn apply(
    live: &Value,
    wanted: &Value,
    manager: &Manager,
    force: bool,
    shape: Shape<'_>,
) -> Result<Value, Refusal> {
    let mut owners = Owners::read(live);
    let wanted_fields = fields_of(&ownable(wanted), shape);
    let mut merged = live.clone();
    merge(&mut merged, wanted, shape);
    let changed = difference(&ownable(live), &ownable(&merged), shape);
    let causes = conflicts(&owners, manager, &changed.set);
    if !causes.is_empty() && !force {
        let s = if causes.len() == 1 { "" } else { "s" };
        let told: Vec<String> = causes
            .iter()
            .map(|(manager, field)| format!("{manager}: {field}"))
            .collect();
        let message = format!(
            "Apply failed with {} conflict{s}: {}",
            causes.len(),
            told.join(", ")
        );
        let causes: Vec<Value> = causes
            .into_iter()
            .map(|(message, field)| {
                json!({"reason": "FieldManagerConflict", "message": message, "field": field})
            })
            .collect();
        return Err(Refusal::new(409, "Conflict", message).with("causes", causes.into()));
    }
    // What it gave up, and nobody else has.
    let mut given_up = owners.of(manager).without(&wanted_fields);
    for other in owners.others(manager) {
        given_up = given_up.without(&other.fields);
    }
    let mut kept = wanted_fields.clone();
    for other in owners.others(manager) {
        kept = kept.union(&other.fields);
    }
    remove(&mut merged, &given_up, &kept, shape);
    let changed = difference(&ownable(live), &ownable(&merged), shape);
    owners.take(manager, &changed.set, &changed.gone);
    owners.set(manager, wanted_fields);
    owners.write(&mut merged);
    Ok(merged)
}

/// Who else owns what would change: the words of the server, and the field.
fn conflicts(owners: &Owners, manager: &Manager, changed: &FieldSet) -> Vec<(String, String)> {
    let mut causes = Vec::new();
    for other in owners.others(manager) {
        for field in other.fields.intersection(changed).paths() {
            let Manager {
                name, api_version, ..
            } = &other.manager;
            let message = format!("conflict with {name:?} using {api_version}");
            causes.push((message, field));
        }
    }
    causes
}

/// Merges what is wanted: objects and lists with keys by their parts, all else replaced.
fn merge(value: &mut Value, wanted: &Value, shape: Shape<'_>) {
    match (value, wanted) {
        (Value::Object(fields), Value::Object(wanted)) if !shape.is_atomic() => {
            for (name, wanted) in wanted {
                match fields.get_mut(name) {
                    Some(value) => merge(value, wanted, shape.field(name)),
                    None => drop(fields.insert(name.clone(), wanted.clone())),
                }
            }
        }
        (Value::Array(items), Value::Array(wanted)) => {
            match shape.list(items.iter().chain(wanted)) {
                ListKind::Atomic => items.clone_from(wanted),
                ListKind::Set => {
                    for wanted in wanted {
                        if !items.contains(wanted) {
                            items.push(wanted.clone());
                        }
                    }
                }
                ListKind::Map(keys) => {
                    for wanted in wanted {
                        let part = shape.item_part(&keys, wanted);
                        let same = |item: &&mut Value| shape.item_part(&keys, item) == part;
                        match items.iter_mut().find(same) {
                            Some(item) => merge(item, wanted, shape.item()),
                            None => items.push(wanted.clone()),
                        }
                    }
                }
            }
        }
        (value, wanted) => value.clone_from(wanted),
    }
}

/// Takes away what is in a set, but for what holds something that is kept.
fn remove(value: &mut Value, gone: &FieldSet, kept: &FieldSet, shape: Shape<'_>) {
    let none = FieldSet::default();
    let inside = |part: &str| {
        let kept = kept.children.get(part).unwrap_or(&none);
        gone.children.get(part).map(|gone| (gone, kept))
    };
    match value {
        Value::Object(fields) => fields.retain(|name, value| {
            let Some((gone, kept)) = inside(&format!("f:{name}")) else {
                return true;
            };
            if gone.member && kept.is_empty() {
                return false;
            }
            let had = !is_hollow(value);
            remove(value, gone, kept, shape.field(name));
            // What became empty by it goes, too.
            !(had && is_hollow(value) && kept.is_empty())
        }),
        Value::Array(items) => match shape.list(items.iter()) {
            ListKind::Atomic => {}
            ListKind::Set => items.retain(|item| {
                let part = format!("v:{item}");
                !inside(&part).is_some_and(|(gone, kept)| gone.member && kept.is_empty())
            }),
            ListKind::Map(keys) => items.retain_mut(|item| {
                let Some((gone, kept)) = inside(&shape.item_part(&keys, item)) else {
                    return true;
                };
                if gone.member && kept.is_empty() {
                    return false;
                }
                remove(item, gone, kept, shape.item());
                true
            }),
        },
        _ => {}
    }
}

fn is_hollow(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}
