//! The resource `NetworkQoSDefault` (netqos.io/v1alpha1): a `NetworkQoS` for each namespace of some
//! kind, which the controller makes there.
// Two columns of one type are no mistake.
#![allow(clippy::duplicated_attributes)]

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::{CustomResource, KubeSchema};
use netqos_core as core;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{FieldError, NetworkQoS, NetworkQosSpec, convert, schema};

/// The label of an object that the controller has made of a default: the default's name.
pub const DEFAULT_LABEL: &str = "netqos.io/default";

/// Which namespaces, and what they get.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "netqos.io",
    version = "v1alpha1",
    kind = "NetworkQoSDefault",
    plural = "networkqosdefaults",
    singular = "networkqosdefault",
    shortname = "nqosdefault",
    category = "netqos",
    derive = "PartialEq",
    doc = "NetworkQoSDefault is a NetworkQoS for each namespace that it selects. The controller makes one of its name there, labelled netqos.io/default, keeps it as the template says, and deletes it when the namespace is selected no more.",
    printcolumn(
        name = "Priority",
        type_ = "integer",
        json_path = ".spec.template.spec.priority"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct NetworkQosDefaultSpec {
    /// Which namespaces get one. Empty: all of them.
    #[schemars(schema_with = "schema::label_selector")]
    pub namespace_selector: LabelSelector,

    /// What each of them gets.
    pub template: NetworkQosTemplate,
}

/// A NetworkQoS without a name.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkQosTemplate {
    /// Labels and annotations of the objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,

    /// As that of a NetworkQoS.
    pub spec: NetworkQosSpec,
}

/// What of its metadata an object takes from a template.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TemplateMetadata {
    /// Labels. At most 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::texts")]
    pub labels: Option<BTreeMap<String, String>>,

    /// Annotations, such as netqos.io/mode. At most 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::texts")]
    pub annotations: Option<BTreeMap<String, String>>,
}

impl NetworkQoSDefault {
    /// A default that can be followed, and which namespaces it is for.
    ///
    /// # Errors
    /// The first field that cannot be read, or that nobody could follow in the objects that are made of
    /// it.
    pub fn read(value: Value) -> Result<(Self, core::LabelSelector), FieldError> {
        let object: Self = serde_path_to_error::deserialize(value).map_err(|error| {
            let path = error.path().to_string();
            FieldError::new(path, error.into_inner())
        })?;
        let namespaces = convert::label_selector(&object.spec.namespace_selector)
            .map_err(|error| error.inside("spec.namespaceSelector"))?;
        convert::policy(&object.object("any")).map_err(|error| error.inside("spec.template"))?;
        Ok((object, namespaces))
    }

    /// The object that a namespace gets. It has the default's name, and the label that says so.
    pub fn object(&self, namespace: &str) -> NetworkQoS {
        let name = self.metadata.name.clone().unwrap_or_default();
        let template = self.spec.template.metadata.clone().unwrap_or_default();
        let mut labels = template.labels.unwrap_or_default();
        labels.insert(DEFAULT_LABEL.to_owned(), name.clone());
        NetworkQoS {
            metadata: ObjectMeta {
                name: Some(name),
                namespace: Some(namespace.to_owned()),
                labels: Some(labels),
                annotations: template.annotations,
                ..ObjectMeta::default()
            },
            spec: self.spec.template.spec.clone(),
            status: None,
        }
    }
}
