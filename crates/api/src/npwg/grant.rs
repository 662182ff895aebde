//! The permissions that an administrator gives to NetworkAttachmentDefinitions.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Component, Path};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use netqos_core::LabelSelector;

use super::AttachmentNeeds;
use super::error::{escaped, listed, quoted};

/// The permissions for the NetworkAttachmentDefinitions of a namespace: those of all policies that match, united.
/// Nothing is permitted by default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AttachmentGrant {
    /// Plugin types, those of IPAM included.
    pub plugin_types: BTreeSet<String>,
    /// Interfaces of the host: a name, a beginning with `*` behind it, or `default-route` for the interface of the
    /// host's default route.
    pub masters: BTreeSet<String>,
    /// Devices of the host, in the same forms.
    pub devices: BTreeSet<String>,
    /// Paths of the host, with all that is below them.
    pub host_paths: BTreeSet<String>,
    /// Keys by which the host's routes and packet filters, or other pods, are changed, behind their plugin's type:
    /// `bridge.isGateway`, `ptp.ipam`, `portmap.portMappings`.
    pub host_keys: BTreeSet<String>,
    /// Configurations that may do anything, by the SHA-256 of their texts in hexadecimal digits.
    pub digests: BTreeSet<String>,
}

/// A `NetworkAttachmentPolicy` (netqos.io/v1alpha1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachmentPolicy {
    /// Its name.
    pub name: Arc<str>,
    /// `metadata.resourceVersion`; empty in a manifest.
    pub resource_version: Arc<str>,
    /// The namespaces with the NetworkAttachmentDefinitions that it is about.
    pub namespaces: LabelSelector,
    /// The namespaces whose pods may select these definitions, beside the definitions' own. `None`: no others.
    pub open_to: Option<LabelSelector>,
    /// The permissions.
    pub grant: AttachmentGrant,
}

/// A need of a configuration that nothing permits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The keys that lead to it, such as `plugins[0].ipam.dataDir`.
    pub path: String,
    /// The need that is not permitted.
    pub message: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", escaped(&self.path), self.message)
    }
}

impl Refusal {
    /// Returns the message of several: five of them, and the number of the others.
    pub fn message_of(refusals: &[Self]) -> String {
        listed(refusals, "; ")
    }
}

impl AttachmentGrant {
    /// Returns the permissions of several policies, united.
    pub fn united<'p>(policies: impl IntoIterator<Item = &'p AttachmentPolicy>) -> Self {
        let mut united = Self::default();
        for policy in policies {
            united.unite(policy.grant.clone());
        }
        united
    }

    /// Adds the permissions of another policy.
    pub fn unite(&mut self, other: Self) {
        self.plugin_types.extend(other.plugin_types);
        self.masters.extend(other.masters);
        self.devices.extend(other.devices);
        self.host_paths.extend(other.host_paths);
        self.host_keys.extend(other.host_keys);
        self.digests.extend(other.digests);
    }

    /// Returns the needs that this does not permit; none of them: the configuration may be executed.
    pub fn refusals(&self, needs: &AttachmentNeeds) -> Vec<Refusal> {
        let refusal = |path: &str, message: String| Refusal {
            path: path.to_owned(),
            message,
        };
        let always = needs.refused.iter();
        let mut refusals: Vec<Refusal> = always
            .map(|(path, why)| refusal(path, why.clone()))
            .collect();
        if self.digests.contains(&needs.digest) {
            return refusals;
        }
        let kinds = [
            ("plugin type", &needs.plugin_types, &self.plugin_types),
            ("interface", &needs.masters, &self.masters),
            ("device", &needs.devices, &self.devices),
            ("key", &needs.host_keys, &self.host_keys),
        ];
        for (what, needed, permitted) in kinds {
            for (path, value) in needed
                .iter()
                .filter(|(_, value)| !is_permitted(permitted, value))
            {
                refusals.push(refusal(
                    path,
                    format!("{what} {} is not permitted", quoted(value)),
                ));
            }
        }
        for (path, value) in needs.host_paths.iter().filter(|(_, it)| !self.has_path(it)) {
            refusals.push(refusal(
                path,
                format!("path {} is not permitted", quoted(value)),
            ));
        }
        let unknown = needs.unknown.iter();
        refusals.extend(unknown.map(|(path, why)| {
            let permission = format!(
                "{why}; permit the configuration by its digest, {}",
                needs.digest
            );
            refusal(path, permission)
        }));
        refusals
    }

    /// Returns true if the path is one of those that are permitted, or below one. Symbolic links are not followed: a
    /// permitted directory is the administrator's.
    fn has_path(&self, path: &str) -> bool {
        let path = Path::new(path);
        let is_plain = path.is_absolute()
            && path
                .components()
                .all(|it| matches!(it, Component::RootDir | Component::Normal(_)));
        let mut permitted = self.host_paths.iter();
        is_plain && permitted.any(|above| above.starts_with('/') && path.starts_with(above))
    }
}

/// Returns true if one of these is the value, or the value's beginning with `*` behind it. Plugins make paths of devices:
/// a value that leads out of its beginning is not permitted by it.
fn is_permitted(permitted: &BTreeSet<String>, value: &str) -> bool {
    let covers = |pattern: &String| match pattern.strip_suffix('*') {
        Some(beginning) => value.starts_with(beginning) && !value.split('/').any(|it| it == ".."),
        None => pattern == value,
    };
    permitted.iter().any(covers)
}
