//! `metadata.managedFields`, read, kept up to date, and written.

use serde_json::{Value, json};

use super::diff::{difference, fields_of};
use super::set::FieldSet;
use super::shape::Shape;
use crate::time::now;

/// Who writes, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manager {
    pub(crate) name: String,
    /// Whether by server-side apply.
    pub(crate) applies: bool,
    pub(crate) api_version: String,
    /// Empty for the object itself.
    pub(crate) subresource: String,
}

/// What a manager owns.
#[derive(Clone, Debug)]
pub(super) struct Owned {
    pub(super) manager: Manager,
    pub(super) fields: FieldSet,
    time: String,
}

/// All managers of an object, and what they own.
#[derive(Clone, Debug, Default)]
pub(super) struct Owners(Vec<Owned>);

impl Owners {
    pub(super) fn read(object: &Value) -> Self {
        let entries = object["metadata"]["managedFields"].as_array();
        let text = |entry: &Value, name: &str| entry[name].as_str().unwrap_or_default().to_owned();
        let read = |entry: &Value| Owned {
            manager: Manager {
                name: text(entry, "manager"),
                applies: entry["operation"] == "Apply",
                api_version: text(entry, "apiVersion"),
                subresource: text(entry, "subresource"),
            },
            fields: FieldSet::from_json(&entry["fieldsV1"]),
            time: text(entry, "time"),
        };
        Self(entries.into_iter().flatten().map(read).collect())
    }

    pub(super) fn write(&self, object: &mut Value) {
        let entries = self.0.iter().filter(|owned| !owned.fields.is_empty());
        let entries: Vec<Value> = entries
            .map(|owned| {
                let manager = &owned.manager;
                let mut entry = json!({
                    "manager": manager.name,
                    "operation": if manager.applies { "Apply" } else { "Update" },
                    "apiVersion": manager.api_version,
                    "time": owned.time,
                    "fieldsType": "FieldsV1",
                    "fieldsV1": owned.fields.to_json(),
                });
                if !manager.subresource.is_empty() {
                    entry["subresource"] = json!(manager.subresource);
                }
                entry
            })
            .collect();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("managedFields");
            if !entries.is_empty() {
                metadata.insert("managedFields".into(), entries.into());
            }
        }
    }

    /// What a manager owns; nothing when it is none yet.
    pub(super) fn of(&self, manager: &Manager) -> FieldSet {
        let own = self.0.iter().find(|owned| owned.manager == *manager);
        own.map(|owned| owned.fields.clone()).unwrap_or_default()
    }

    /// All but one.
    pub(super) fn others<'o>(&'o self, manager: &'o Manager) -> impl Iterator<Item = &'o Owned> {
        self.0.iter().filter(|owned| owned.manager != *manager)
    }

    /// Says what a manager owns from now on.
    pub(super) fn set(&mut self, manager: &Manager, fields: FieldSet) {
        match self.0.iter_mut().find(|owned| owned.manager == *manager) {
            Some(owned) if owned.fields == fields => {}
            Some(owned) => (owned.fields, owned.time) = (fields, now()),
            None => self.0.push(Owned {
                manager: manager.clone(),
                fields,
                time: now(),
            }),
        }
    }

    /// Takes fields from all others, those below some of them, too.
    pub(super) fn take(&mut self, manager: &Manager, set: &FieldSet, gone: &FieldSet) {
        for owned in &mut self.0 {
            let mut rest = owned.fields.without_below(gone);
            if owned.manager != *manager {
                rest = rest.without(set);
            }
            owned.fields = rest;
        }
    }
}

/// Notes in a new object who changed what, by a create, an update, or a patch that is no apply.
pub(crate) fn note_update(
    new: &mut Value,
    old: Option<&Value>,
    manager: &Manager,
    shape: Shape<'_>,
) {
    let mut owners = match old {
        Some(old) => Owners::read(old),
        None => Owners::default(),
    };
    let after = ownable(new);
    let (set, gone) = match old {
        None => (fields_of(&after, shape), FieldSet::default()),
        Some(old) => {
            let changed = difference(&ownable(old), &after, shape);
            (changed.set, changed.gone)
        }
    };
    owners.take(manager, &set, &gone);
    let own = owners.of(manager).union(&set);
    owners.set(manager, own);
    owners.write(new);
}

/// An object without what nobody owns: what names it, and what the server itself writes.
pub(super) fn ownable(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("apiVersion");
        fields.remove("kind");
        if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
            for own in [
                "creationTimestamp",
                "deletionGracePeriodSeconds",
                "deletionTimestamp",
                "generation",
                "managedFields",
                "name",
                "namespace",
                "resourceVersion",
                "selfLink",
                "uid",
            ] {
                metadata.remove(own);
            }
            if metadata.is_empty() {
                fields.remove("metadata");
            }
        }
    }
    object
}
