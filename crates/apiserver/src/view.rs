//! In which form a client gets objects.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::call::Call;
use crate::events;
use crate::resource::Resource;
use crate::status::Refusal;
use crate::store::Stored;

/// What the client accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// Objects as they are.
    Whole,
    /// Their metadata alone (`PartialObjectMetadata`).
    Metadata,
}

impl View {
    /// Reads the header `Accept`. What asks for a table first and takes JSON else gets JSON, which
    /// kubectl makes a table of itself.
    ///
    /// # Errors
    /// 406 when it accepts nothing of it, as who wants protobuf alone.
    pub(crate) fn of(call: &Call) -> Result<Self, Refusal> {
        for accepted in call.accept.split(',') {
            let mut parts = accepted.split(';').map(str::trim);
            let media = parts.next().unwrap_or("");
            let form = parts.find_map(|part| part.strip_prefix("as="));
            match (media, form) {
                (
                    "application/json",
                    Some("PartialObjectMetadata" | "PartialObjectMetadataList"),
                ) => {
                    return Ok(Self::Metadata);
                }
                ("application/json" | "*/*" | "application/*" | "", None) => {
                    return Ok(Self::Whole);
                }
                _ => {}
            }
        }
        let message = "only the following media types are accepted: application/json";
        Err(Refusal::new(406, "NotAcceptable", message))
    }

    /// An object by itself, or in a watch.
    pub(crate) fn object(self, resource: &Resource, stored: &Stored) -> Bytes {
        match self {
            Self::Whole if events::is_renamed(resource) => {
                let object = events::as_served(resource, stored.value(resource));
                object.to_string().into()
            }
            Self::Whole => stored.json(resource),
            Self::Metadata => {
                let object = stored.value(resource);
                let metadata = json!({
                    "kind": "PartialObjectMetadata",
                    "apiVersion": "meta.k8s.io/v1",
                    "metadata": object["metadata"],
                });
                metadata.to_string().into()
            }
        }
    }

    /// An object in a list: of Kubernetes' own, without version and kind.
    fn item(self, resource: &Resource, stored: &Stored) -> Bytes {
        match self {
            Self::Whole if !resource.is_custom() && !events::is_renamed(resource) => {
                stored.json_without_kind()
            }
            _ => self.object(resource, stored),
        }
    }

    /// A list.
    pub(crate) fn list<'o>(
        self,
        resource: &Resource,
        metadata: Value,
        objects: impl IntoIterator<Item = &'o Stored>,
    ) -> Bytes {
        let (kind, version) = match self {
            Self::Whole => (resource.list_kind.as_str(), resource.api_version()),
            Self::Metadata => ("PartialObjectMetadataList", "meta.k8s.io/v1".to_owned()),
        };
        let mut list = Vec::new();
        list.extend_from_slice(
            format!(
                "{{\"kind\":\"{kind}\",\"apiVersion\":\"{version}\",\"metadata\":{metadata},\
                 \"items\":["
            )
            .as_bytes(),
        );
        for (index, object) in objects.into_iter().enumerate() {
            if index > 0 {
                list.push(b',');
            }
            list.extend_from_slice(&self.item(resource, object));
        }
        list.extend_from_slice(b"]}");
        list.into()
    }

    /// What a watch says before it says anything else: how far it got.
    pub(crate) fn bookmark(self, resource: &Resource, revision: u64, initial: bool) -> Value {
        let (kind, version) = match self {
            Self::Whole => (resource.kind.as_str(), resource.api_version()),
            Self::Metadata => ("PartialObjectMetadata", "meta.k8s.io/v1".to_owned()),
        };
        let mut object = json!({
            "kind": kind,
            "apiVersion": version,
            "metadata": {"resourceVersion": revision.to_string(), "creationTimestamp": null},
        });
        if initial {
            object["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        json!({"type": "BOOKMARK", "object": object})
    }
}
