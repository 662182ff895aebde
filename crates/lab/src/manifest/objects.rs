//! The objects beside pods: what the agent is told, and the networks among them.

use std::fmt;

use netqos_cni::runtime::NetworkConfigList;
use netqos_core::{Bandwidth, ObjectName};
use netqos_k8s::{Object, object_from_value};
use serde_json::{Value, json};

use super::pod::check_name;
use super::{Document, ManifestError};

/// The label that every namespace of a cluster has.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// An object as the agent reads it.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectManifest {
    /// Its kind.
    pub kind: String,
    /// Its name; the namespace is empty where its kind has none.
    pub name: ObjectName,
    /// All of it.
    pub value: Value,
}

/// A network that pods may ask for beside the one that all are on.
#[derive(Clone, Debug, PartialEq)]
pub struct SecondNetwork {
    /// The `NetworkAttachmentDefinition`'s.
    pub name: ObjectName,
    /// Its plugins.
    pub list: NetworkConfigList,
}

/// A rule whose bandwidth something may be held to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeteredRule {
    /// The NetworkQoS that it is in, and its place there from 0.
    pub name: RuleName,
    /// What it holds to.
    pub bandwidth: Bandwidth,
}

/// A rule of a NetworkQoS; written `namespace/name[index]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleName {
    /// The object.
    pub object: ObjectName,
    /// The rule's place in it, from 0.
    pub index: usize,
}

/// Everything that is no pod and no scenario.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Objects {
    /// As they were found.
    pub all: Vec<ObjectManifest>,
    /// Those that pods may be on.
    pub networks: Vec<SecondNetwork>,
    /// Those that limit.
    pub metered: Vec<MeteredRule>,
    /// How many NetworkQoS there are: an agent is needed for them.
    pub policies: usize,
    /// Something says how lines are shared: the agent divides those to the hosts outside.
    pub shares: bool,
}

/// What a node is called that no object names.
const NODE: &str = "node";

/// What says how lines are shared, and whose node it is said of. The agent reads and checks them.
const OF_LINES: [&str; 3] = ["ConfigMap", "Node", "NodeSLO"];

impl Objects {
    /// True for a kind that can be among them.
    pub(super) fn knows(kind: &str) -> bool {
        matches!(
            kind,
            "NetworkQoS"
                | "Namespace"
                | "NetworkAttachmentDefinition"
                | "NetworkAttachmentPolicy"
                | "Service"
                | "EndpointSlice"
        ) || OF_LINES.contains(&kind)
    }

    /// True when an agent is needed for them.
    pub(crate) fn need_an_agent(&self) -> bool {
        self.policies > 0 || self.shares
    }

    /// Takes one more.
    pub(super) fn put(&mut self, document: &Document, kind: &str) -> Result<(), ManifestError> {
        if OF_LINES.contains(&kind) {
            self.shares |= kind != "Node";
            let name = name_of(document)?;
            if kind == "Node" {
                check_name(document, "metadata.name", &name.name)?;
            }
            return self.put_as(document, kind, name);
        }
        let object = object_from_value(&document.value).map_err(|errors| {
            let first = errors.into_iter().next();
            first.map_or_else(
                || document.problem("kind", "cannot be read"),
                |error| document.problem(error.path, error.message),
            )
        })?;
        let name = match &object {
            Object::Namespace(namespace) => ObjectName::new("", &namespace.name),
            Object::Policy(policy) => {
                self.policies += 1;
                let metered = policy.rules.iter().enumerate();
                self.metered.extend(metered.filter_map(|(index, rule)| {
                    let object = policy.name.clone();
                    Some(MeteredRule {
                        name: RuleName { object, index },
                        bandwidth: rule.bandwidth?,
                    })
                }));
                policy.name.clone()
            }
            Object::Network(network) => {
                let list = network_list(document, &network.cni_name)?;
                let name = network.name.clone();
                self.networks.push(SecondNetwork { name, list });
                network.name.clone()
            }
            Object::AttachmentPolicy(policy) => ObjectName::new("", &policy.name),
            Object::Service(service) => service.name.clone(),
            Object::EndpointSlice(slice) => slice.name.clone(),
            _ => {
                let problem = format!("a {kind} of this version is nothing to build here");
                return Err(document.problem("apiVersion", problem));
            }
        };
        self.put_as(document, kind, name)
    }

    fn put_as(
        &mut self,
        document: &Document,
        kind: &str,
        name: ObjectName,
    ) -> Result<(), ManifestError> {
        let twin = |other: &&ObjectManifest| other.kind == kind && other.name == name;
        if self.all.iter().any(|other| twin(&other)) {
            let problem = format!("there are two of kind {kind}: {name}");
            return Err(document.problem("metadata.name", problem));
        }
        let mut value = document.value.clone();
        if kind == "Namespace" {
            label_with_its_name(&mut value, &name.name);
        }
        self.all.push(ObjectManifest {
            kind: kind.to_owned(),
            name,
            value,
        });
        Ok(())
    }

    /// Namespaces that pods are in without there being an object of them are as a cluster would have
    /// made them.
    pub(super) fn complete<'p>(&mut self, namespaces: impl Iterator<Item = &'p str>) {
        for namespace in namespaces {
            let is_it =
                |one: &ObjectManifest| one.kind == "Namespace" && &*one.name.name == namespace;
            if self.all.iter().any(is_it) {
                continue;
            }
            let mut value = json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace},
            });
            label_with_its_name(&mut value, namespace);
            self.all.push(ObjectManifest {
                kind: "Namespace".to_owned(),
                name: ObjectName::new("", namespace),
                value,
            });
        }
    }

    /// The names of the nodes, of which there is always one.
    pub fn nodes(&self) -> Vec<String> {
        let nodes = self.all.iter().filter(|one| one.kind == "Node");
        let names: Vec<String> = nodes.map(|one| one.name.name.to_string()).collect();
        match names.is_empty() {
            true => vec![NODE.to_owned()],
            false => names,
        }
    }

    /// The network of this name.
    pub(crate) fn network(&self, name: &ObjectName) -> Option<&SecondNetwork> {
        self.networks.iter().find(|network| network.name == *name)
    }
}

/// The name that a document's metadata gives.
fn name_of(document: &Document) -> Result<ObjectName, ManifestError> {
    let text = |field: &str| {
        let path = format!("/metadata/{field}");
        document.value.pointer(&path).and_then(Value::as_str)
    };
    match text("name") {
        Some(name) => Ok(ObjectName::new(text("namespace").unwrap_or_default(), name)),
        None => Err(document.problem("metadata.name", "missing")),
    }
}

fn label_with_its_name(namespace: &mut Value, name: &str) {
    if let Some(metadata) = namespace.get_mut("metadata").and_then(Value::as_object_mut) {
        let labels = metadata.entry("labels").or_insert_with(|| json!({}));
        if let Some(labels) = labels.as_object_mut() {
            labels.insert(NAME_LABEL.to_owned(), name.into());
        }
    }
}

/// The plugins of a definition; a configuration of one plugin is a list of one.
fn network_list(document: &Document, name: &str) -> Result<NetworkConfigList, ManifestError> {
    let wrong = |problem: String| document.problem("spec.config", problem);
    let text = document.value.pointer("/spec/config");
    let Some(text) = text.and_then(Value::as_str) else {
        let problem = "missing: there are no files of a node that it could be in";
        return Err(wrong(problem.to_owned()));
    };
    let mut config: Value = serde_json::from_str(text).map_err(|why| wrong(why.to_string()))?;
    if let Some(config) = config.as_object_mut() {
        config.entry("name").or_insert_with(|| name.into());
    }
    let text = config.to_string();
    let list = match config.get("plugins") {
        Some(_) => NetworkConfigList::parse(text.as_bytes()),
        None => NetworkConfigList::parse_single(text.as_bytes()),
    };
    list.map_err(|why| wrong(why.to_string()))
}

impl RuleName {
    /// `namespace/name`, its first rule, or `namespace/name[index]`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (name, index) = match text.strip_suffix(']') {
            None => (text, 0),
            Some(text) => {
                let (name, index) = text.rsplit_once('[')?;
                (name, index.parse().ok()?)
            }
        };
        let (namespace, name) = name.split_once('/')?;
        Some(Self {
            object: ObjectName::new(namespace, name),
            index,
        })
    }
}

impl fmt::Display for RuleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.object, self.index)
    }
}
