//! The objects that there are, from wherever they come.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use netqos_api::npwg::AttachmentPolicy;
use netqos_core::objects::{NetworkDefinition, Pod};
use netqos_core::{Labels, NodeReport, ObjectName, Policy, Profile};
use netqos_index::{Change, Index};
use netqos_k8s::check::{Findings, check_read};
use netqos_k8s::{
    Definition, FieldError, NetworkQoSNodeReport, Object, convert, documents, list_items,
    object_from_value,
};
use serde_json::Value;

use crate::code::{DUPLICATE, INVALID, UNREADABLE};
use crate::known::{Extent, Known};
use crate::message::{Message, Subject};

/// The node that all pods are on, to an index that is asked about all of them.
const EVERYWHERE: &str = "*";

/// Objects, each known once; without what does not matter here, so that those of a large cluster have
/// room.
#[derive(Debug, Default)]
pub struct Snapshot {
    objects: BTreeMap<(String, ObjectName), Found>,
    reports: BTreeMap<Arc<str>, NodeReport>,
    /// What could not be read at all.
    unreadable: Vec<Message>,
    live: bool,
    known: Known,
}

/// An object as it was found.
#[derive(Debug)]
pub struct Found {
    /// File and document; empty: in the cluster.
    pub place: String,
    /// What it is, or all that is wrong with it.
    pub object: Result<Object, Vec<FieldError>>,
    /// `metadata.uid`; empty where it has none.
    pub uid: String,
    /// `metadata.generation`; 0 where it has none.
    pub generation: i64,
    /// Its annotations, of a pod.
    pub annotations: BTreeMap<String, String>,
    /// What is wrong with it though it can be read.
    pub(crate) findings: Findings,
}

impl Found {
    /// A policy that can be read.
    fn policy(&self) -> Option<&Policy> {
        match &self.object {
            Ok(Object::Policy(policy)) => Some(policy),
            _ => None,
        }
    }

    /// A pod that can be read.
    fn pod(&self) -> Option<&Pod> {
        match &self.object {
            Ok(Object::Pod(pod, ..)) => Some(pod),
            _ => None,
        }
    }

    /// The network of a NetworkAttachmentDefinition that can be read.
    pub(crate) fn network(&self) -> Option<&NetworkDefinition> {
        match &self.object {
            Ok(Object::Network(network)) => Some(network),
            _ => None,
        }
    }
}

impl Snapshot {
    /// No objects, of a cluster: what nodes have not said, they have not said.
    pub fn of_cluster() -> Self {
        Self {
            live: true,
            ..Self::default()
        }
    }

    /// True when it is of a cluster, and not of manifests alone.
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// Of this kind no more than that could be read: nothing is said that depends on the rest.
    pub fn limit(&mut self, kind: &str, to: Extent) {
        self.known.limit(kind, to);
    }

    /// The cluster does not have this kind.
    pub fn set_absent(&mut self, kind: &str) {
        self.known.set_absent(kind);
    }

    /// Returns true if all objects of a kind were read; of kinds in namespaces, those of this namespace where one is named.
    pub fn has_read(&self, kind: &str, namespace: Option<&str>) -> bool {
        match namespace {
            Some(namespace) => self.known.all_in(kind, namespace),
            None => self.known.all(kind),
        }
    }

    /// How much of each kind was read.
    pub(crate) fn known(&self) -> &Known {
        &self.known
    }

    /// Takes an object of the cluster in.
    pub fn put(&mut self, value: &Value) {
        if value.get("kind").and_then(Value::as_str) == Some("NetworkQoSNodeReport") {
            let report: Option<NetworkQoSNodeReport> = serde_json::from_value(value.clone()).ok();
            let report = report.and_then(|report| convert::node_report(&report).ok());
            self.reports
                .extend(report.map(|report| (report.node.clone(), report)));
            return;
        }
        self.insert("", value);
    }

    /// Takes the objects of a text in, each in place of one of the cluster that has its name.
    pub fn put_text(&mut self, file: &str, text: &str) {
        for document in documents(text) {
            let place = document.place().in_file(file);
            for why in document
                .left_out
                .iter()
                .chain(document.value.as_ref().err())
            {
                self.unreadable(file, &place, why);
            }
            match &document.value {
                Err(_) => {}
                Ok(value) => match list_items(value) {
                    None => self.put_document(file, &place, value),
                    Some(Err(not_a_list)) => self.unreadable(file, &place, &not_a_list.to_string()),
                    Some(Ok(items)) => {
                        for item in items {
                            self.put_document(file, &place, item);
                        }
                    }
                },
            }
        }
    }

    fn put_document(&mut self, file: &str, place: &str, value: &Value) {
        let Some((kind, name)) = named(value) else {
            return self.unreadable(file, place, "kind or metadata.name is missing");
        };
        let known = self.get(&kind, &name);
        if let Some(known) = known.filter(|known| !known.place.is_empty()) {
            let text = format!("it is in {}, too; the first one counts", known.place);
            let message = Message::new(&DUPLICATE, Subject::new(&kind, &name), text);
            self.unreadable.push(message.in_place(place));
            return;
        }
        self.insert(place, value);
    }

    fn unreadable(&mut self, file: &str, place: &str, why: &str) {
        let subject = Subject::new("File", &ObjectName::new("", file));
        let text = format!("cannot read the document: {why}");
        let message = Message::new(&UNREADABLE, subject, text);
        self.unreadable.push(message.in_place(place));
    }

    fn insert(&mut self, place: &str, value: &Value) {
        let Some((kind, name)) = named(value) else {
            return;
        };
        let object = match Definition::of(value) {
            Some(_) => match netqos_k8s::validate(value) {
                errors if errors.is_empty() => object_from_value(value),
                errors => Err(errors),
            },
            None => object_from_value(value),
        };
        let uid = value.pointer("/metadata/uid").and_then(Value::as_str);
        let generation = value.pointer("/metadata/generation");
        let annotations = value.pointer("/metadata/annotations");
        let annotations = annotations
            .and_then(Value::as_object)
            .filter(|_| kind == "Pod");
        let about_bandwidth = annotations
            .into_iter()
            .flatten()
            .filter_map(|(key, value)| {
                let of_ours = key.ends_with("-bandwidth") || key.starts_with("netqos.io/");
                of_ours.then_some((key.clone(), value.as_str()?.to_owned()))
            });
        let findings = { object.is_ok() }.then(|| check_read(value, &object));
        let found = Found {
            place: place.to_owned(),
            findings: findings.flatten().unwrap_or_default(),
            object,
            uid: uid.unwrap_or_default().to_owned(),
            generation: generation.and_then(Value::as_i64).unwrap_or_default(),
            annotations: about_bandwidth.collect(),
        };
        self.objects.insert((kind, name), found);
    }

    /// What could not be read, or is there twice.
    pub fn unreadable_documents(&self) -> &[Message] {
        &self.unreadable
    }

    /// The objects, by kind and name.
    pub(crate) fn objects(&self) -> impl Iterator<Item = (&str, &ObjectName, &Found)> {
        let objects = self.objects.iter();
        objects.map(|((kind, name), found)| (kind.as_str(), name, found))
    }

    fn get(&self, kind: &str, name: &ObjectName) -> Option<&Found> {
        self.objects.get(&(kind.to_owned(), name.clone()))
    }

    /// The objects of a kind.
    fn of_kind(&self, kind: &str) -> impl Iterator<Item = (&ObjectName, &Found)> {
        let first = (kind.to_owned(), ObjectName::new("", ""));
        let kind = kind.to_owned();
        let objects = self.objects.range(first..);
        objects
            .take_while(move |((of, _), _)| *of == kind)
            .map(|((_, name), found)| (name, found))
    }

    /// The policies that can be read.
    pub fn policies(&self) -> impl Iterator<Item = (&Policy, &Found)> {
        let all = self.of_kind("NetworkQoS");
        all.filter_map(|(_, found)| Some((found.policy()?, found)))
    }

    /// One policy.
    pub(crate) fn policy(&self, name: &ObjectName) -> Option<&Policy> {
        self.get("NetworkQoS", name)?.policy()
    }

    /// The profiles that can be read.
    pub(crate) fn profiles(&self) -> impl Iterator<Item = (&Profile, &Found)> {
        let all = self.of_kind("BandwidthProfile");
        all.filter_map(|(_, found)| match &found.object {
            Ok(Object::Profile(profile)) => Some((profile, found)),
            _ => None,
        })
    }

    /// The pods that can be read.
    pub(crate) fn pods(&self) -> impl Iterator<Item = (&Pod, &Found)> {
        let all = self.of_kind("Pod");
        all.filter_map(|(_, found)| Some((found.pod()?, found)))
    }

    /// The NetworkAttachmentDefinitions, also those that cannot be read.
    pub(crate) fn nads(&self) -> impl Iterator<Item = (&ObjectName, &Found)> {
        NADS.iter().flat_map(move |kind| self.of_kind(kind))
    }

    /// Returns true if a NetworkAttachmentDefinition has this name, or OVN-Kubernetes makes one for the network of it.
    pub(crate) fn has_nad(&self, name: &ObjectName) -> bool {
        let of_cluster = ObjectName::new("", &name.name);
        let mut kinds = NADS.iter().chain(&["UserDefinedNetwork"]);
        kinds.any(|kind| self.get(kind, name).is_some())
            || self.get("ClusterUserDefinedNetwork", &of_cluster).is_some()
    }

    /// The NetworkAttachmentPolicies that can be read.
    pub(crate) fn attachment_policies(&self) -> impl Iterator<Item = &AttachmentPolicy> {
        let all = self.of_kind("NetworkAttachmentPolicy");
        all.filter_map(|(_, found)| match &found.object {
            Ok(Object::AttachmentPolicy(policy)) => Some(policy),
            _ => None,
        })
    }

    /// The pods of a namespace.
    pub(crate) fn pods_in(&self, namespace: &str) -> impl Iterator<Item = &Pod> {
        let first = ("Pod".to_owned(), ObjectName::new(namespace, ""));
        let namespace = namespace.to_owned();
        let behind = self.objects.range(first..);
        let here = behind
            .take_while(move |((kind, name), _)| kind == "Pod" && *name.namespace == *namespace);
        here.filter_map(|(_, found)| found.pod())
    }

    /// One pod.
    pub fn pod(&self, name: &ObjectName) -> Option<(&Pod, &Found)> {
        let found = self.get("Pod", name)?;
        Some((found.pod()?, found))
    }

    /// A NetworkAttachmentDefinition, or the first error that makes it unreadable.
    pub(crate) fn nad(&self, name: &ObjectName) -> Option<Result<(), String>> {
        let found = self.get("NetworkAttachmentDefinition", name)?;
        Some(match &found.object {
            Ok(_) => Ok(()),
            Err(errors) => Err(errors.first().map(ToString::to_string).unwrap_or_default()),
        })
    }

    /// Returns true if all NetworkAttachmentDefinitions of this namespace were read.
    pub(crate) fn knows_nads_of(&self, namespace: &str) -> bool {
        self.known.all_in("NetworkAttachmentDefinition", namespace)
    }

    /// The namespaces that anything is in, each with its labels, which a namespace that nobody has
    /// described has but one of.
    pub(crate) fn namespaces(&self) -> BTreeMap<Arc<str>, Labels> {
        let mut all: BTreeMap<Arc<str>, Labels> = BTreeMap::new();
        for (_, name, found) in self.objects() {
            if let Ok(Object::Namespace(namespace)) = &found.object {
                all.insert(namespace.name.clone(), namespace.labels.clone());
            } else if !name.namespace.is_empty() {
                all.entry(name.namespace.clone()).or_insert_with(|| {
                    Labels::from([("kubernetes.io/metadata.name".into(), name.namespace.clone())])
                });
            }
        }
        all
    }

    /// The names of the nodes.
    pub fn nodes(&self) -> BTreeSet<Arc<str>> {
        let nodes = self.of_kind("Node");
        nodes.map(|(name, _)| name.name.clone()).collect()
    }

    /// What nodes have said last.
    pub fn reports(&self) -> &BTreeMap<Arc<str>, NodeReport> {
        &self.reports
    }

    /// An index of it all, in which all pods are on one node: it answers for the whole cluster.
    pub fn index(&self) -> Index {
        let mut index = Index::for_node(EVERYWHERE);
        for (kind, name, found) in self.objects() {
            let Ok(object) = &found.object else { continue };
            // For a UserDefinedNetwork there is a definition of the same name, which counts.
            let definition = || self.get("NetworkAttachmentDefinition", name);
            if kind == "UserDefinedNetwork" && definition().is_some() {
                continue;
            }
            let Some(mut change) = change(object) else {
                continue;
            };
            let user_network = self.get("UserDefinedNetwork", name);
            let user_network = user_network.map(|found| &found.object);
            if let (Change::NetworkDefinition(network), Some(Ok(Object::UserNetwork(of)))) =
                (&mut change, user_network)
            {
                network.primary.clone_from(&of.primary);
            }
            index.apply(change);
        }
        index.take_delta();
        index
    }
}

fn change(object: &Object) -> Option<Change> {
    Some(match object.clone() {
        Object::Namespace(namespace) => Change::Namespace(namespace),
        Object::Pod(mut pod, ..) => {
            pod.node = Some(EVERYWHERE.into());
            Change::Pod(*pod)
        }
        Object::Policy(policy) => Change::Policy(policy),
        Object::Quota(quota) => Change::Quota(quota),
        Object::Profile(profile) => Change::Profile(profile),
        Object::Network(network) | Object::UserNetwork(network) => {
            Change::NetworkDefinition(network)
        }
        Object::ClusterNetwork(network) => Change::ClusterNetwork(network),
        Object::Service(service) => Change::Service(service),
        Object::EndpointSlice(slice) => Change::EndpointSlice(slice),
        Object::PeerSlice(_)
        | Object::AttachmentPolicy(_)
        | Object::Node(_)
        | Object::SloConfig(..)
        | Object::NodeSlo(..)
        | Object::Other { .. } => return None,
    })
}

/// Kinds that are in no namespace.
const OF_THE_CLUSTER: [&str; 7] = [
    "Namespace",
    "Node",
    "ClusterUserDefinedNetwork",
    "NodeSLO",
    "NetworkQoSQuota",
    "NetworkQoSDefault",
    "NetworkAttachmentPolicy",
];

/// The kinds of NetworkAttachmentDefinitions: that of the specification, and that of its drafts.
const NADS: [&str; 2] = ["NetworkAttachmentDefinition", "Network"];

/// Kind and name. In a manifest an object without a namespace is one of `default`, as everywhere here.
fn named(value: &Value) -> Option<(String, ObjectName)> {
    let text = |path: &str| value.pointer(path).and_then(Value::as_str);
    let (kind, name) = (text("/kind")?, text("/metadata/name")?);
    let namespace = match OF_THE_CLUSTER.contains(&kind) {
        true => "",
        false => text("/metadata/namespace").unwrap_or("default"),
    };
    Some((kind.to_owned(), ObjectName::new(namespace, name)))
}

/// The message that an object is invalid, for each of its errors.
pub(crate) fn invalid(
    kind: &str,
    name: &ObjectName,
    found: &Found,
    errors: &[FieldError],
) -> Vec<Message> {
    let message = |error: &FieldError| {
        Message::new(&INVALID, Subject::new(kind, name), error.message.clone())
            .at(error.path.clone())
            .in_place(&found.place)
    };
    errors.iter().map(message).collect()
}
