//! What a server serves: one resource in one version.

use std::sync::Arc;

use netqos_k8s::ResourceSchema;

/// Where objects are kept: a resource without its version. Versions of one resource share it, and
/// so do the two kinds of Event.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Storage {
    pub(crate) group: String,
    pub(crate) plural: String,
}

/// A resource in a version.
pub(crate) struct Resource {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) namespaced: bool,
    /// Whether `/status` is there, and the main resource leaves the status alone.
    pub(crate) status: bool,
    /// Whether `metadata.generation` is kept.
    pub(crate) generation: bool,
    /// The fields that a field selector may name, beside name and namespace.
    pub(crate) selectable: Vec<String>,
    pub(crate) storage: Storage,
    pub(crate) form: Form,
}

/// What is known of the objects of a resource.
#[derive(Clone)]
pub(crate) enum Form {
    /// Kubernetes' own.
    BuiltIn,
    /// As its definition says.
    Custom(Arc<ResourceSchema>),
}

impl Resource {
    /// `networkqoses.k8s.ovn.org`, `pods`.
    pub(crate) fn qualified(&self) -> String {
        match self.group.as_str() {
            "" => self.plural.clone(),
            group => format!("{}.{group}", self.plural),
        }
    }

    /// `NetworkQoS.k8s.ovn.org`, `Pod`.
    pub(crate) fn kind_and_group(&self) -> String {
        match self.group.as_str() {
            "" => self.kind.clone(),
            group => format!("{}.{group}", self.kind),
        }
    }

    /// `k8s.ovn.org/v1alpha1`, `v1`.
    pub(crate) fn api_version(&self) -> String {
        match self.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }

    pub(crate) fn is(&self, group: &str, plural: &str) -> bool {
        self.group == group && self.plural == plural
    }

    pub(crate) fn is_custom(&self) -> bool {
        matches!(self.form, Form::Custom(_))
    }

    /// The schema, where there is one.
    pub(crate) fn schema(&self) -> Option<&ResourceSchema> {
        match &self.form {
            Form::Custom(schema) => Some(schema),
            Form::BuiltIn => None,
        }
    }
}
