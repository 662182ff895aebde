//! Objects of the kinds that matter to netqos, out of manifests.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::discovery::v1 as discovery;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use netqos_api::koordinator::{Mistake, NodeSlo, PodClass};
use netqos_api::npwg::AttachmentPolicy;
use netqos_core::objects::{
    ClusterNetwork, EndpointSlice, Namespace, NetworkDefinition, Node, PeerSlice, Pod, Service,
};
use netqos_core::{ObjectName, ObjectRef, Policy, Problem, Profile, Quota};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::field::item;
use crate::kinds::{is_cluster_scoped, near_miss};
use crate::openapi::{QUOTE_TEXTS, article, kind_of, normalize};
use crate::structural::check_pruned;
use crate::{
    BandwidthProfile, Definition as Resource, DocumentPlace, FieldError, NetworkAttachmentPolicy,
    NetworkQoS, NetworkQoSPeerSlice, NetworkQoSQuota, convert, documents, list_items,
};

/// One object.
#[derive(Clone, Debug, PartialEq)]
pub enum Object {
    /// A `Namespace`.
    Namespace(Namespace),
    /// A `Pod`, what is wrong with its labels and annotations, which does not keep it out, and of
    /// which class it is; `None` where nobody asks for that.
    Pod(Box<Pod>, Vec<Problem>, Option<Box<PodClass>>),
    /// A `NetworkQoS`.
    Policy(Policy),
    /// A `NetworkQoSQuota`.
    Quota(Quota),
    /// A `BandwidthProfile`.
    Profile(Profile),
    /// A `NetworkAttachmentPolicy`.
    AttachmentPolicy(AttachmentPolicy),
    /// A `NetworkAttachmentDefinition`.
    Network(NetworkDefinition),
    /// A `UserDefinedNetwork`, as the definition that OVN-Kubernetes makes for it.
    UserNetwork(NetworkDefinition),
    /// A `ClusterUserDefinedNetwork`.
    ClusterNetwork(ClusterNetwork),
    /// A `Service`.
    Service(Service),
    /// An `EndpointSlice` of a Service.
    EndpointSlice(EndpointSlice),
    /// A `NetworkQoSPeerSlice`.
    PeerSlice(PeerSlice),
    /// A `Node`.
    Node(Node),
    /// Koordinator's ConfigMap of this name: its keys.
    SloConfig(ObjectName, BTreeMap<String, String>),
    /// What the `NodeSLO` of the node of this name says of the network, or all that is wrong with it.
    NodeSlo(Arc<str>, Result<Box<NodeSlo>, Vec<Mistake>>),
    /// Something else.
    Other {
        /// Its `apiVersion`.
        api_version: String,
        /// Its `kind`.
        kind: String,
    },
}

/// An object that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct DocumentError {
    /// The document that it is in, from 1.
    pub document: usize,
    /// The line that this document starts on, from 1.
    pub line: usize,
    /// Its `kind`, where it says one.
    pub kind: Option<String>,
    /// Its namespace and name, where it says a name.
    pub name: Option<ObjectName>,
    /// All that is wrong with it; at least one. The path is empty where the document as a whole
    /// cannot be read.
    pub errors: Vec<FieldError>,
}

#[derive(Deserialize)]
struct Bare {
    #[serde(default)]
    metadata: ObjectMeta,
}

#[derive(Deserialize)]
#[serde(bound = "S: serde::de::DeserializeOwned + Default")]
struct WithSpec<S> {
    #[serde(default)]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: S,
}

#[derive(Deserialize)]
struct Definition {
    #[serde(default)]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: DefinitionSpec,
}

#[derive(Default, Deserialize)]
struct DefinitionSpec {
    config: Option<String>,
}

/// Every object of a text, in its order; those of a `List` one by one. An object that cannot be read
/// stops none of the others.
pub fn objects_from_yaml(text: &str) -> Vec<Result<Object, DocumentError>> {
    let objects = placed_objects_from_yaml(text).into_iter();
    objects.map(|(_, object)| object).collect()
}

/// As [`objects_from_yaml`], each with the document that it is in.
pub fn placed_objects_from_yaml(text: &str) -> Vec<(DocumentPlace, Result<Object, DocumentError>)> {
    let mut objects = Vec::new();
    for document in documents(text) {
        let mut add = |object| objects.push((document.place(), object));
        let error = |value: Option<&Value>, errors| DocumentError {
            document: document.number,
            line: document.line,
            kind: value.and_then(|value| text_at(value, "kind")),
            name: value.and_then(name_of),
            errors,
        };
        for why in &document.left_out {
            add(Err(error(None, vec![FieldError::new("", why)])));
        }
        match &document.value {
            Err(why) => add(Err(error(None, vec![FieldError::new("", why)]))),
            Ok(value) => match list_items(value) {
                None => {
                    let object = object_from_value(value);
                    add(object.map_err(|errors| error(Some(value), errors)));
                }
                Some(Err(not_a_list)) => add(Err(error(Some(value), vec![not_a_list]))),
                Some(Ok(items)) => {
                    for (index, value) in items.iter().enumerate() {
                        let path = item("items", index);
                        let inside = |errors: Vec<FieldError>| {
                            let errors = errors.into_iter();
                            errors.map(|one| one.inside(&path)).collect()
                        };
                        let object = object_from_value(value);
                        add(object.map_err(|errors| error(Some(value), inside(errors))));
                    }
                }
            },
        }
    }
    objects
}

/// One object.
///
/// # Errors
/// All that is wrong with it. One of our resources is checked as a server would, but for what CEL says in
/// other words than the conversion.
pub fn object_from_value(value: &Value) -> Result<Object, Vec<FieldError>> {
    let one = |error: FieldError| vec![error];
    if !value.is_object() {
        let what = article(kind_of(value));
        let message =
            format!("an object is expected, not {what}; a document holds one object or a List");
        return Err(one(FieldError::new("", message)));
    }
    let (Some(api_version), Some(kind)) = (text_at(value, "apiVersion"), text_at(value, "kind"))
    else {
        let missing = ["apiVersion", "kind"]
            .into_iter()
            .filter(|name| text_at(value, name).is_none());
        return Err(missing
            .map(|name| FieldError::new(name, "missing"))
            .collect());
    };
    let (group, _) = api_version.split_once('/').unwrap_or(("", ""));
    match (group, kind.as_str()) {
        ("", "Namespace") => {
            let object: core::Namespace = read(value).map_err(one)?;
            convert::namespace(&object)
                .map(Object::Namespace)
                .map_err(one)
        }
        ("", "Pod") => {
            let object: core::Pod = read(value).map_err(one)?;
            let (pod, problems, class) = convert::pod(&object).map_err(one)?;
            Ok(Object::Pod(Box::new(pod), problems, Some(Box::new(class))))
        }
        ("", "Service") => {
            let object: core::Service = read(value).map_err(one)?;
            convert::service(&object).map(Object::Service).map_err(one)
        }
        ("", "Node") => {
            let object: Bare = read(value).map_err(one)?;
            convert::node(&object.metadata)
                .map(Object::Node)
                .map_err(one)
        }
        ("", "ConfigMap") => {
            let object: core::ConfigMap = read(value).map_err(one)?;
            let config = convert::slo_config(object).map_err(one)?;
            Ok(
                config.map_or(Object::Other { api_version, kind }, |(name, data)| {
                    Object::SloConfig(name, data)
                }),
            )
        }
        ("slo.koordinator.sh", "NodeSLO") => {
            let object: Bare = read(value).map_err(one)?;
            let (name, slo) = convert::node_slo(&object.metadata, value).map_err(one)?;
            Ok(Object::NodeSlo(name, slo.map(Box::new)))
        }
        ("discovery.k8s.io", "EndpointSlice") => {
            let object: discovery::EndpointSlice = read(value).map_err(one)?;
            let slice = convert::endpoint_slice(&object).map_err(one)?;
            Ok(slice.map_or(Object::Other { api_version, kind }, Object::EndpointSlice))
        }
        // The name in the Network Plumbing Working Group's specification, and the one in its drafts, which Kuryr uses.
        ("k8s.cni.cncf.io", "NetworkAttachmentDefinition")
        | ("kubernetes.cni.cncf.io", "Network") => {
            let object: Definition = read(value).map_err(one)?;
            convert::network_definition(&object.metadata, object.spec.config.as_deref())
                .map(Object::Network)
                .map_err(one)
        }
        ("k8s.ovn.org", "UserDefinedNetwork") => {
            let object: WithSpec<convert::UserNetworkSpec> = read(value).map_err(one)?;
            convert::user_defined_network(&object.metadata, &object.spec)
                .map(Object::UserNetwork)
                .map_err(one)
        }
        ("k8s.ovn.org", "ClusterUserDefinedNetwork") => {
            let object: WithSpec<convert::ClusterNetworkSpec> = read(value).map_err(one)?;
            convert::cluster_network(&object.metadata, &object.spec)
                .map(Object::ClusterNetwork)
                .map_err(one)
        }
        ("k8s.ovn.org", "NetworkQoS") => {
            let object: NetworkQoS = read_checked(value)?;
            convert::policy(&object).map(Object::Policy).map_err(one)
        }
        ("netqos.io", "NetworkQoSPeerSlice") => {
            let object: NetworkQoSPeerSlice = read(value).map_err(one)?;
            convert::peer_slice(&object)
                .map(Object::PeerSlice)
                .map_err(one)
        }
        ("netqos.io", "NetworkQoSQuota") => {
            let object: NetworkQoSQuota = read_checked(value)?;
            convert::quota(&object).map(Object::Quota).map_err(one)
        }
        ("netqos.io", "NetworkAttachmentPolicy") => {
            let object: NetworkAttachmentPolicy = read_checked(value)?;
            convert::attachment_policy(&object)
                .map(Object::AttachmentPolicy)
                .map_err(one)
        }
        ("netqos.io", "BandwidthProfile") => {
            let object: BandwidthProfile = read_checked(value)?;
            convert::profile(&object).map(Object::Profile).map_err(one)
        }
        _ => match near_miss(group, &kind) {
            Some(error) => Err(one(error)),
            None => Ok(Object::Other { api_version, kind }),
        },
    }
}

/// Reads an object of one of our resources as its type, when its schema takes it.
fn read_checked<T: DeserializeOwned>(value: &Value) -> Result<T, Vec<FieldError>> {
    let mut value = value.clone();
    if let Some(definition) = Resource::of(&value) {
        normalize(&mut value, definition.schema());
        let errors = check_pruned(&value, &definition);
        if !errors.is_empty() {
            return Err(errors);
        }
    }
    read(&value).map_err(|error| vec![error])
}

/// Reads a whole object as a type.
fn read<T: DeserializeOwned>(value: &Value) -> Result<T, FieldError> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let path = if path == "." { String::new() } else { path };
        let message = error.into_inner().to_string();
        let hint =
            if message.contains("invalid type: boolean") && message.contains("expected a string") {
                QUOTE_TEXTS
            } else {
                ""
            };
        FieldError::new(path, message + hint)
    })
}

fn text_at(value: &Value, name: &str) -> Option<String> {
    Some(value.get(name)?.as_str()?.to_owned())
}

fn name_of(value: &Value) -> Option<ObjectName> {
    let metadata = value.get("metadata")?;
    let name = text_at(metadata, "name")?;
    let namespace = text_at(metadata, "namespace").unwrap_or_else(|| "default".to_owned());
    Some(ObjectName::new(&namespace, &name))
}

impl DocumentError {
    /// What the error is about, where a problem can be about it.
    pub fn object(&self) -> Option<ObjectRef> {
        let name = self.name.clone()?;
        match self.kind.as_deref()? {
            "NetworkQoS" => Some(ObjectRef::Policy(name)),
            "Pod" => Some(ObjectRef::Pod(name)),
            "NetworkQoSQuota" => Some(ObjectRef::Quota(name.name.to_string())),
            "BandwidthProfile" => Some(ObjectRef::Profile(name)),
            "Node" => Some(ObjectRef::Node(name.name.to_string())),
            _ => None,
        }
    }
}

impl fmt::Display for DocumentError {
    /// `document 2 (line 14), NetworkQoS games/free: spec.priority: …; …`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = DocumentPlace {
            document: self.document,
            line: self.line,
        };
        write!(f, "{place}")?;
        if let Some(kind) = &self.kind {
            write!(f, ", {kind}")?;
        }
        match (&self.name, self.kind.as_deref()) {
            (None, _) => {}
            (Some(name), Some(kind)) if is_cluster_scoped(kind) => write!(f, " {}", name.name)?,
            (Some(name), _) => write!(f, " {name}")?,
        }
        for (index, error) in self.errors.iter().enumerate() {
            f.write_str(if index == 0 { ": " } else { "; " })?;
            if error.path.is_empty() {
                f.write_str(&error.message)?;
            } else {
                error.fmt(f)?;
            }
        }
        Ok(())
    }
}
