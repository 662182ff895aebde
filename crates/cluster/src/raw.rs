//! An object as it came.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::DynamicResourceScope;
use netqos_core::ObjectName;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::Kind;

/// An object of whatever shape: what a client must know of it, and all that it says.
#[derive(Clone, Debug)]
pub struct Raw {
    metadata: ObjectMeta,
    value: Value,
}

impl Raw {
    /// Its namespace (empty where it has none) and name.
    pub fn name(&self) -> ObjectName {
        let text = |part: &Option<String>| part.as_deref().unwrap_or_default().to_owned();
        let (namespace, name) = (text(&self.metadata.namespace), text(&self.metadata.name));
        ObjectName::new(&namespace, &name)
    }

    /// All that it says, with `apiVersion` and `kind`, which servers leave out in lists, and without
    /// `metadata.managedFields`, which is most of it: but for who has written the status of a
    /// NetworkQoS, and who a NodeSLO, which others write, too.
    pub fn into_value(mut self, kind: Kind) -> Value {
        if let Some(fields) = self.value.as_object_mut() {
            fields.insert("apiVersion".into(), kind.api_version().into());
            fields.insert("kind".into(), kind.name().into());
            if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
                let managed = metadata.remove("managedFields");
                let kept = match kind {
                    Kind::NetworkQoS => managed.and_then(status),
                    Kind::NodeSlo => managed,
                    _ => None,
                };
                metadata.extend(kept.map(|it| ("managedFields".to_owned(), it)));
            }
        }
        self.value
    }
}

/// What of the fields' managers is about the status.
fn status(mut managed: Value) -> Option<Value> {
    let entries = managed.as_array_mut()?;
    entries.retain(|entry| entry.pointer("/fieldsV1/f:status").is_some());
    (!entries.is_empty()).then_some(managed)
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(from)?;
        // What of the metadata is not as it should be is for whoever reads the object.
        let text = |name: &str| {
            let text = value.get("metadata")?.get(name)?.as_str()?;
            Some(text.to_owned())
        };
        let metadata = ObjectMeta {
            name: text("name"),
            namespace: text("namespace"),
            uid: text("uid"),
            resource_version: text("resourceVersion"),
            ..ObjectMeta::default()
        };
        Ok(Self { metadata, value })
    }
}

impl Resource for Raw {
    type DynamicType = Kind;
    type Scope = DynamicResourceScope;

    fn kind(kind: &Kind) -> Cow<'_, str> {
        kind.name().into()
    }

    fn group(kind: &Kind) -> Cow<'_, str> {
        kind.group().into()
    }

    fn version(kind: &Kind) -> Cow<'_, str> {
        kind.version().into()
    }

    fn api_version(kind: &Kind) -> Cow<'_, str> {
        kind.api_version().into()
    }

    fn plural(kind: &Kind) -> Cow<'_, str> {
        kind.plural().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_nobody_can_make_sense_of_is_an_object_all_the_same() {
        let odd = json!({
            "metadata": {"name": "p", "namespace": "games", "labels": 7, "managedFields": [1]},
            "spec": "none"
        });
        let raw: Raw = serde_json::from_value(odd).unwrap();
        assert_eq!(raw.name(), ObjectName::new("games", "p"));
        assert_eq!(
            raw.into_value(Kind::NetworkQoS),
            json!({
                "apiVersion": "k8s.ovn.org/v1alpha1",
                "kind": "NetworkQoS",
                "metadata": {"name": "p", "namespace": "games", "labels": 7},
                "spec": "none"
            })
        );
    }
}
