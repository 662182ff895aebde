//! Policies for NetworkAttachmentDefinitions.

use std::collections::BTreeSet;

use netqos_api::npwg::{AttachmentGrant, AttachmentPolicy};
use netqos_core::LabelSelector;

use super::label_selector;
use super::metadata;
use super::selector::at_most;
use crate::field::item;
use crate::{FieldError, NetworkAttachmentPolicy};

/// The most entries of a list, and of digests.
const ENTRIES: usize = 64;
const DIGESTS: usize = 256;

/// A `NetworkAttachmentPolicy`.
///
/// # Errors
/// The first field that breaks a limit of the schema.
pub fn attachment_policy(object: &NetworkAttachmentPolicy) -> Result<AttachmentPolicy, FieldError> {
    let spec = &object.spec;
    let selector =
        |selector, path| label_selector(selector).map_err(|error: FieldError| error.inside(path));
    let namespaces = match &spec.namespace_selector {
        None => LabelSelector::everything(),
        Some(it) => selector(it, "spec.namespaceSelector")?,
    };
    let open_to = spec.open_to.as_ref();
    let resource_version = object.metadata.resource_version.as_deref();
    Ok(AttachmentPolicy {
        name: metadata::name(&object.metadata)?,
        resource_version: resource_version.unwrap_or_default().into(),
        namespaces,
        open_to: open_to.map(|it| selector(it, "spec.openTo")).transpose()?,
        grant: AttachmentGrant {
            plugin_types: set(&spec.plugin_types, ENTRIES, "spec.pluginTypes", |_| true)?,
            masters: set(&spec.masters, ENTRIES, "spec.masters", |_| true)?,
            devices: set(&spec.devices, ENTRIES, "spec.devices", |_| true)?,
            host_paths: set(&spec.host_paths, ENTRIES, "spec.hostPaths", |it| {
                it.starts_with('/')
            })?,
            host_keys: set(&spec.host_keys, ENTRIES, "spec.hostKeys", |_| true)?,
            digests: set(&spec.digests, DIGESTS, "spec.digests", |it| it.len() == 64)?,
        },
    })
}

fn set(
    list: &Option<Vec<String>>,
    most: usize,
    path: &str,
    is_valid: impl Fn(&str) -> bool,
) -> Result<BTreeSet<String>, FieldError> {
    let list = list.as_deref().unwrap_or_default();
    at_most(list.len(), most, path)?;
    let invalid = list.iter().position(|it| it.is_empty() || !is_valid(it));
    match invalid {
        Some(index) => Err(FieldError::new(
            item(path, index),
            format!("{:?} does not have the form", list[index]),
        )),
        None => Ok(list.iter().cloned().collect()),
    }
}
