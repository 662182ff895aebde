//! Creates, updates and patches: what a request makes of what is there.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::call::{Call, Target};
use crate::draft::{Draft, UnknownFields, shape};
use crate::events;
use crate::fields::{Manager, apply};
use crate::patch::Patch;
use crate::random;
use crate::resource::Resource;
use crate::state::{State, key};
use crate::status::Refusal;
use crate::store::{Key, Stored};

/// What a write brings.
pub(crate) enum Content {
    /// A whole object, to be new.
    Create(Value),
    /// A whole object, in place of another.
    Update(Value),
    /// A change.
    Patch(Patch),
}

/// Drafts what a request makes of the present state.
///
/// # Errors
/// All that can be said before the object is looked at as a whole.
pub(crate) fn draft(
    state: &State,
    call: &Call,
    target: &Target,
    resource: &Arc<Resource>,
    content: &Content,
) -> Result<Draft, Refusal> {
    let mut draft = match content {
        Content::Create(object) => create(state, call, target, resource, object),
        Content::Update(object) => update(state, call, target, resource, object),
        Content::Patch(patch) => change(state, call, target, resource, patch),
    }?;
    draft.subresource.clone_from(&target.subresource);
    draft.unknown_fields = match call.query.get("fieldValidation") {
        Some("Strict") => UnknownFields::Refuse,
        Some("Ignore") => UnknownFields::Ignore,
        _ => UnknownFields::Warn,
    };
    Ok(draft)
}

fn create(
    state: &State,
    call: &Call,
    target: &Target,
    resource: &Arc<Resource>,
    object: &Value,
) -> Result<Draft, Refusal> {
    let mut object = object.clone();
    check_kind(&object, resource)?;
    let namespace = namespace(&object, target)?;
    let metadata = &object["metadata"];
    if metadata["resourceVersion"]
        .as_str()
        .is_some_and(|version| !version.is_empty())
    {
        let message = "resourceVersion should not be set on objects to be created";
        return Err(Refusal::bad_request(message));
    }
    let said = |name: &str| {
        let text = metadata[name].as_str().unwrap_or("");
        text.to_owned()
    };
    let (mut name, prefix) = (said("name"), said("generateName"));
    if name.is_empty() && !prefix.is_empty() {
        name = format!("{prefix}{}", random::suffix());
    }
    if name.is_empty() {
        let error = netqos_k8s::FieldError::new("metadata.name", "missing");
        return Err(Refusal::invalid(resource, "", &[error]));
    }
    if resource.namespaced {
        state.check_namespace(&namespace)?;
    }
    object["metadata"]["name"] = name.clone().into();
    let key = key(&namespace, &name);
    if stored(state, resource, &key).is_some() {
        return Err(Refusal::already_exists(resource, &name));
    }
    let manager = manager(call, target, resource, false);
    Ok(Draft::new(resource.clone(), key, None, object, manager))
}

fn update(
    state: &State,
    call: &Call,
    target: &Target,
    resource: &Arc<Resource>,
    object: &Value,
) -> Result<Draft, Refusal> {
    check_kind(object, resource)?;
    let namespace = namespace(object, target)?;
    let name = target.name.clone().unwrap_or_default();
    let said = object["metadata"]["name"].as_str().unwrap_or("");
    if !said.is_empty() && said != name {
        let message =
            format!("the name of the object ({said}) does not match the name on the URL ({name})");
        return Err(Refusal::bad_request(message));
    }
    let key = key(&namespace, &name);
    let Some(old) = stored(state, resource, &key) else {
        return Err(Refusal::not_found(resource, &name));
    };
    let unread = object["metadata"]["resourceVersion"]
        .as_str()
        .unwrap_or("")
        .is_empty();
    if unread && (resource.is_custom() || resource.plural == "leases") {
        let message = "must be specified for an update";
        let error = netqos_k8s::FieldError::new("metadata.resourceVersion", message);
        return Err(Refusal::invalid(resource, &name, &[error]));
    }
    check_fresh(object, &old, resource)?;
    let manager = manager(call, target, resource, false);
    Ok(Draft::new(
        resource.clone(),
        key,
        Some(old),
        object.clone(),
        manager,
    ))
}

fn change(
    state: &State,
    call: &Call,
    target: &Target,
    resource: &Arc<Resource>,
    patch: &Patch,
) -> Result<Draft, Refusal> {
    let name = target.name.clone().unwrap_or_default();
    let key = key(target.namespace.as_deref().unwrap_or(""), &name);
    let old = stored(state, resource, &key);
    match (patch, old) {
        (Patch::Apply(wanted), old) => applied(state, call, target, resource, wanted, key, old),
        (_, None) => Err(Refusal::not_found(resource, &name)),
        (patch, Some(old)) => {
            let before = served(resource, &old);
            let patched = patch.apply_to(&before, shape(resource))?;
            check_kind(&patched, resource)?;
            check_fresh(&patched, &old, resource)?;
            let manager = manager(call, target, resource, false);
            Ok(Draft::new(
                resource.clone(),
                key,
                Some(old),
                patched,
                manager,
            ))
        }
    }
}

fn applied(
    state: &State,
    call: &Call,
    target: &Target,
    resource: &Arc<Resource>,
    wanted: &Value,
    key: Key,
    old: Option<Arc<Stored>>,
) -> Result<Draft, Refusal> {
    if call.query.get("fieldManager").is_none() {
        let message = "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is \
                       required for apply patch";
        return Err(Refusal::new(422, "Invalid", message));
    }
    if wanted["apiVersion"].is_null() || wanted["kind"].is_null() {
        return Err(Refusal::bad_request(
            "apiVersion and kind must be set in apply requests",
        ));
    }
    check_kind(wanted, resource)?;
    // In the words of the merge that a server does it by.
    let undeclared = resource.schema().map(|it| it.tidy(&mut wanted.clone()));
    if let Some(field) = undeclared.into_iter().flatten().next() {
        let (version, kind) = (resource.api_version(), &resource.kind);
        let message = format!(
            "failed to create typed patch object ({}/{}; {version}, Kind={kind}): .{field}: field not \
             declared in schema",
            key.namespace, key.name
        );
        return Err(Refusal::new(500, "", message));
    }
    if wanted["metadata"]["managedFields"].is_array() {
        return Err(Refusal::bad_request("metadata.managedFields must be nil"));
    }
    let mut wanted = wanted.clone();
    only_its_part(&mut wanted, target, resource);
    let live = match &old {
        Some(old) => {
            check_fresh(&wanted, old, resource)?;
            served(resource, old)
        }
        None if target.subresource.is_some() => {
            return Err(Refusal::not_found(resource, &key.name));
        }
        None => {
            if wanted["metadata"]["uid"].is_string() {
                let why = "uid mismatch: the provided object specified uid, and no existing object \
                           was found";
                return Err(Refusal::conflict(resource, &key.name, why));
            }
            if resource.namespaced {
                state.check_namespace(&key.namespace)?;
            }
            json!({
                "apiVersion": resource.api_version(),
                "kind": resource.kind,
                "metadata": {"name": key.name},
            })
        }
    };
    let manager = manager(call, target, resource, true);
    let force = call.query.flag("force");
    let merged = apply(&live, &wanted, &manager, force, shape(resource))?;
    let mut draft = Draft::new(resource.clone(), key, old, merged, manager);
    draft.applied = true;
    Ok(draft)
}

/// What is applied to the object says nothing about its status, and the other way round.
fn only_its_part(wanted: &mut Value, target: &Target, resource: &Resource) {
    let Some(fields) = wanted.as_object_mut() else {
        return;
    };
    match target.subresource.as_deref() {
        Some("status") => {
            fields
                .retain(|name, _| ["apiVersion", "kind", "metadata", "status"].contains(&&**name));
            if resource.is_custom()
                && let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut)
            {
                metadata.retain(|name, _| {
                    ["name", "namespace", "uid", "resourceVersion"].contains(&&**name)
                });
            }
        }
        _ if resource.status => drop(fields.remove("status")),
        _ => {}
    }
}

/// An object as a client of this resource sees it.
pub(crate) fn served(resource: &Resource, stored: &Stored) -> Value {
    let object = stored.value(resource);
    match events::is_renamed(resource) {
        true => events::as_served(resource, object),
        false => object,
    }
}

fn stored(state: &State, resource: &Resource, key: &Key) -> Option<Arc<Stored>> {
    state.store.get(&resource.storage, key).cloned()
}

fn manager(call: &Call, target: &Target, resource: &Resource, applies: bool) -> Manager {
    Manager {
        name: call.manager(),
        applies,
        api_version: resource.api_version(),
        subresource: target.subresource.clone().unwrap_or_default(),
    }
}

/// Refuses an object of another kind than the path's.
fn check_kind(object: &Value, resource: &Resource) -> Result<(), Refusal> {
    let said = |name: &str| object[name].as_str().unwrap_or("").to_owned();
    let (version, kind) = (said("apiVersion"), said("kind"));
    let (expected, expected_kind) = (resource.api_version(), &resource.kind);
    if (version.is_empty() || version == expected) && (kind.is_empty() || kind == *expected_kind) {
        return Ok(());
    }
    Err(Refusal::bad_request(format!(
        "the API version in the data ({version}, kind {kind}) does not match the expected API \
         version ({expected}, kind {expected_kind})"
    )))
}

/// The namespace of an object, which is that of the path.
fn namespace(object: &Value, target: &Target) -> Result<String, Refusal> {
    let said = object["metadata"]["namespace"].as_str().unwrap_or("");
    let path = target.namespace.as_deref().unwrap_or("");
    if !said.is_empty() && said != path {
        let message = "the namespace of the provided object does not match the namespace sent on \
                       the request";
        return Err(Refusal::bad_request(message));
    }
    Ok(path.to_owned())
}

/// Refuses what was made of another state, or of another object of the name.
fn check_fresh(object: &Value, old: &Stored, resource: &Resource) -> Result<(), Refusal> {
    let said = |name: &str| object["metadata"][name].as_str().unwrap_or("").to_owned();
    let revision = said("resourceVersion");
    if !revision.is_empty() && revision != old.revision.to_string() {
        return Err(Refusal::stale(resource, &old.key.name));
    }
    let uid = said("uid");
    let is = old.value(resource)["metadata"]["uid"].clone();
    if !uid.is_empty() && is != uid.as_str() {
        let is = is.as_str().unwrap_or("").to_owned();
        let why =
            format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {is}");
        return Err(Refusal::conflict(resource, &old.key.name, &why));
    }
    Ok(())
}
