//! A change before it is made: what is there, what is to be there, and all that a server says to it.

use std::sync::Arc;

use netqos_k8s::FieldError;
use serde_json::Value;

use crate::crds;
use crate::defaults;
use crate::fields::{Manager, Shape, note_update};
use crate::names;
use crate::random;
use crate::resource::Resource;
use crate::status::Refusal;
use crate::store::{Key, Stored};
use crate::time::now;
use crate::typed::{as_metadata, as_typed, unknown_fields};

/// What to do about fields that nobody knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnknownFields {
    /// Drop them.
    Ignore,
    /// Drop them, and say so in a header.
    Warn,
    /// Refuse the request.
    Refuse,
}

/// A change of one object.
pub(crate) struct Draft {
    pub(crate) resource: Arc<Resource>,
    pub(crate) key: Key,
    /// What is there; nothing when the object is new.
    pub(crate) old: Option<Arc<Stored>>,
    old_value: Value,
    /// What is to be there.
    pub(crate) new: Value,
    pub(crate) subresource: Option<String>,
    pub(crate) manager: Manager,
    /// Whether the fields' owners were noted by server-side apply.
    pub(crate) applied: bool,
    pub(crate) unknown_fields: UnknownFields,
    /// Fields that were dropped.
    pub(crate) dropped: Vec<String>,
}

impl Draft {
    /// A change of what is there into `new`.
    pub(crate) fn new(
        resource: Arc<Resource>,
        key: Key,
        old: Option<Arc<Stored>>,
        new: Value,
        manager: Manager,
    ) -> Self {
        let old_value = old.as_ref().map(|old| old.value(&resource));
        Self {
            old_value: old_value.unwrap_or_default(),
            resource,
            key,
            old,
            new,
            subresource: None,
            manager,
            applied: false,
            unknown_fields: UnknownFields::Ignore,
            dropped: Vec::new(),
        }
    }

    /// Whether the change takes the object away: it was deleted before, and nobody holds it any
    /// more.
    pub(crate) fn is_end(&self) -> bool {
        let metadata = &self.new["metadata"];
        let held = metadata["finalizers"].as_array();
        let waits = metadata["deletionGracePeriodSeconds"]
            .as_i64()
            .is_some_and(|seconds| seconds > 0);
        self.old.is_some()
            && !metadata["deletionTimestamp"].is_null()
            && held.is_none_or(Vec::is_empty)
            && !waits
    }

    /// Whether it changes nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.old.is_some() && self.new == self.old_value
    }

    /// What is there; null when the object is new.
    pub(crate) fn old_value(&self) -> &Value {
        &self.old_value
    }

    /// Brings the object into the form in which it is kept, as far as nobody else has a say.
    ///
    /// # Errors
    /// 400 for another type than the field's, or unknown fields when they are refused; 422 for
    /// what may not change.
    pub(crate) fn prepare(&mut self) -> Result<(), Refusal> {
        self.tidy()?;
        match self.old {
            None => self.begin(),
            Some(_) => self.carry_over()?,
        }
        defaults::set(&mut self.new, &self.resource);
        if self
            .resource
            .is("apiextensions.k8s.io", "customresourcedefinitions")
        {
            crds::note_status(&mut self.new);
        }
        Ok(())
    }

    /// Takes what a webhook made of the object. What it adds that nobody knows is dropped unsaid.
    ///
    /// # Errors
    /// 400 for another type than the field's.
    pub(crate) fn put_changed(&mut self, object: Value) -> Result<(), Refusal> {
        let dropped = std::mem::take(&mut self.dropped);
        let unknown_fields = std::mem::replace(&mut self.unknown_fields, UnknownFields::Ignore);
        self.new = object;
        let tidied = self.tidy();
        (self.dropped, self.unknown_fields) = (dropped, unknown_fields);
        tidied?;
        defaults::set(&mut self.new, &self.resource);
        Ok(())
    }

    /// Checks the object as a whole, and notes who wrote it.
    ///
    /// # Errors
    /// 422 for what is wrong with it.
    pub(crate) fn finish(&mut self) -> Result<(), Refusal> {
        self.check()?;
        if !self.applied {
            let mut new = std::mem::take(&mut self.new);
            let old = self.old.as_ref().map(|_| &self.old_value);
            note_update(&mut new, old, &self.manager, shape(&self.resource));
            self.new = new;
        }
        self.keep_if_same();
        self.count_generation();
        Ok(())
    }

    /// Types, unknown fields, nulls.
    fn tidy(&mut self) -> Result<(), Refusal> {
        let resource = self.resource.clone();
        let undecodable = |why: String| {
            let (kind, version) = (&resource.kind, &resource.version);
            Refusal::bad_request(format!(
                "{kind} in version {version:?} cannot be handled as a {kind}: {why}"
            ))
        };
        if !self.new.is_object() {
            return Err(undecodable("an object is expected".into()));
        }
        self.new["apiVersion"] = resource.api_version().into();
        self.new["kind"] = resource.kind.clone().into();
        let mut dropped = Vec::new();
        match resource.schema() {
            Some(schema) => {
                let metadata = as_metadata(&self.new["metadata"]).map_err(undecodable)?;
                unknown_fields(&self.new["metadata"], &metadata, "metadata", &mut dropped);
                self.new["metadata"] = metadata;
                dropped.extend(schema.tidy(&mut self.new));
            }
            None => {
                let typed = as_typed(&self.new, &resource).map_err(undecodable)?;
                unknown_fields(&self.new, &typed, "", &mut dropped);
                self.new = typed;
            }
        }
        if !dropped.is_empty() && self.unknown_fields == UnknownFields::Refuse {
            let told: Vec<String> = dropped
                .iter()
                .map(|path| format!("unknown field \"{path}\""))
                .collect();
            let message = format!("strict decoding error: {}", told.join(", "));
            return Err(Refusal::bad_request(message));
        }
        self.dropped = dropped;
        Ok(())
    }

    /// What a new object gets, and may not bring.
    fn begin(&mut self) {
        let metadata = &mut self.new["metadata"];
        if let Some(fields) = metadata.as_object_mut() {
            for own in [
                "resourceVersion",
                "deletionTimestamp",
                "deletionGracePeriodSeconds",
                "selfLink",
                "generation",
            ] {
                fields.remove(own);
            }
            if !self.applied {
                fields.remove("managedFields");
            }
        }
        metadata["name"] = self.key.name.clone().into();
        if !self.key.namespace.is_empty() {
            metadata["namespace"] = self.key.namespace.clone().into();
        }
        metadata["uid"] = random::uid().into();
        metadata["creationTimestamp"] = now().into();
        if self.resource.generation {
            metadata["generation"] = 1.into();
        }
        // A node brings its own.
        if self.resource.status && self.resource.plural != "nodes" {
            remove(&mut self.new, "status");
        }
    }

    /// What a change leaves as it is, however it is written.
    fn carry_over(&mut self) -> Result<(), Refusal> {
        let old = &self.old_value;
        for own in [
            "uid",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "generation",
            "name",
            "namespace",
            "resourceVersion",
            "selfLink",
        ] {
            copy(old, &mut self.new, &["metadata", own]);
        }
        if self.new["metadata"]["managedFields"].is_null() && !self.applied {
            copy(old, &mut self.new, &["metadata", "managedFields"]);
        }
        match self.subresource.as_deref() {
            None if self.resource.status => copy(old, &mut self.new, &["status"]),
            Some("status") => {
                let mut whole = old.clone();
                copy(&self.new, &mut whole, &["status"]);
                copy(&self.new, &mut whole, &["metadata", "managedFields"]);
                if !self.resource.is_custom() {
                    copy(&self.new, &mut whole, &["metadata", "labels"]);
                    copy(&self.new, &mut whole, &["metadata", "annotations"]);
                }
                self.new = whole;
            }
            _ => {}
        }
        Ok(())
    }

    fn check(&self) -> Result<(), Refusal> {
        let mut errors = names::check(&self.new, &self.resource);
        let old = self.old.as_ref().map(|_| &self.old_value);
        match self.resource.schema() {
            Some(schema) => {
                let form = schema.check_form(&self.new);
                // Of another form, no rule is asked.
                let broken = match form.is_empty() {
                    true => schema.check_rules(&self.new, old),
                    false => form,
                };
                let broken = broken.into_iter();
                errors.extend(broken.filter(|it| !stays(old, &self.new, &it.path)));
            }
            None => errors.extend(defaults::check(&self.new, old, &self.resource)),
        }
        if let Some(old) = old {
            errors.extend(new_finalizers(old, &self.new));
        }
        match errors.is_empty() {
            true => Ok(()),
            false => Err(Refusal::invalid(&self.resource, &self.key.name, &errors)),
        }
    }

    /// Who changes nothing but the time at which he did is not noted.
    fn keep_if_same(&mut self) {
        let Some(_) = self.old else { return };
        let mut new = self.new.clone();
        copy(&self.old_value, &mut new, &["metadata", "managedFields"]);
        let owners = |object: &Value| {
            let mut owners = object["metadata"]["managedFields"].clone();
            for owner in owners.as_array_mut().into_iter().flatten() {
                remove(owner, "time");
            }
            owners
        };
        if new == self.old_value && owners(&self.new) == owners(&self.old_value) {
            self.new = new;
        }
    }

    /// The generation grows when what is wanted changes: neither by metadata nor by the status.
    fn count_generation(&mut self) {
        if self.old.is_none() || !self.resource.generation {
            return;
        }
        let wanted = |object: &Value| {
            let mut object = object.clone();
            for other in ["apiVersion", "kind", "metadata"] {
                remove(&mut object, other);
            }
            if self.resource.status {
                remove(&mut object, "status");
            }
            object
        };
        if wanted(&self.new) != wanted(&self.old_value) {
            let generation = self.old_value["metadata"]["generation"].as_i64();
            self.new["metadata"]["generation"] = (generation.unwrap_or(0) + 1).into();
        }
    }
}

/// The shape of the objects of a resource.
pub(crate) fn shape(resource: &Resource) -> Shape<'_> {
    match resource.schema() {
        Some(schema) => Shape::Root(schema.document()),
        None => Shape::built_in(&resource.plural),
    }
}

/// True when an object was so before: then a server takes what its schema would refuse, as it does by
/// default from 1.30 on (KEP-4008). Told by the field that is refused, which is a little more than a
/// server lets pass where a rule stands further up.
fn stays(old: Option<&Value>, new: &Value, path: &str) -> bool {
    let pointer = path.replace('[', "/").replace(']', "").replace('.', "/");
    let pointer = format!("/{pointer}");
    let before = old.and_then(|old| old.pointer(&pointer));
    !path.is_empty() && before.is_some() && before == new.pointer(&pointer)
}

/// Finalizers that are added to what is going.
fn new_finalizers(old: &Value, new: &Value) -> Option<FieldError> {
    if old["metadata"]["deletionTimestamp"].is_null() {
        return None;
    }
    let list = |object: &Value| {
        let list = object["metadata"]["finalizers"].as_array();
        list.cloned().unwrap_or_default()
    };
    let had = list(old);
    let added = list(new).into_iter().find(|one| !had.contains(one))?;
    let message = format!("may not get {added}: the object is being deleted");
    Some(FieldError::new("metadata.finalizers", message))
}

/// Gives one object the field of another, or takes it away where that has none.
fn copy(from: &Value, to: &mut Value, path: &[&str]) {
    let Some((last, parents)) = path.split_last() else {
        return;
    };
    let (mut from, mut to) = (from, to);
    for parent in parents {
        (from, to) = (&from[*parent], &mut to[*parent]);
    }
    match from.get(last) {
        Some(value) => to[*last] = value.clone(),
        None => remove(to, last),
    }
}

fn remove(object: &mut Value, name: &str) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove(name);
    }
}
