//! Pods, as Kubernetes writes them, and what of them matters here.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use netqos_api::npwg::{DEFAULT_NETWORK, InterfaceNames, NETWORKS, PodSelections};
use netqos_cni::kubelet::Pod;
use netqos_core::{Limits, ObjectName};
use serde::Deserialize;
use serde_json::Value;

use super::kubernetes::{self, refuse_unknown};
use super::{Document, ManifestError, Objects};

/// The interface of the default network.
const DEFAULT_INTERFACE: &str = "eth0";

/// The longest name of a pod in Kubernetes (a DNS subdomain).
const MAX_NAME: usize = 253;

/// A pod that can be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodManifest {
    /// Who it is, and what its annotations ask for.
    pub pod: Pod,
    /// What runs in it.
    pub containers: Vec<Container>,
    /// The networks that it is on beside the one that all are on.
    pub networks: Vec<WantedNetwork>,
    /// The node that it is on.
    pub node: String,
    /// All of it, as it was read.
    pub value: Value,
}

/// A network that a pod asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedNetwork {
    /// The `NetworkAttachmentDefinition`.
    pub definition: ObjectName,
    /// The interface's name in the pod.
    pub interface: String,
    /// The limits that the pod requests of it.
    pub limits: Limits,
}

/// A container, which here is a process in the pod's network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// Its name.
    pub name: String,
    /// The program and its arguments, from the host's file system. Empty: nothing to start, since
    /// what an image would start is not known here.
    pub command: Vec<String>,
    /// Its environment, beside `PATH`, `HOME` and `HOSTNAME`.
    pub env: Vec<(String, String)>,
    /// Where it starts.
    pub working_dir: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodDocument {
    #[serde(default = "v1")]
    api_version: String,
    #[expect(dead_code, reason = "known from choosing this type")]
    kind: String,
    metadata: Metadata,
    #[serde(default)]
    spec: PodSpec,
    #[serde(flatten)]
    other: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    #[serde(default)]
    namespace: Option<String>,
    #[serde(default)]
    uid: Option<String>,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
    #[serde(flatten)]
    other: BTreeMap<String, Value>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodSpec {
    #[serde(default)]
    containers: Vec<ContainerDocument>,
    #[serde(default)]
    host_network: bool,
    #[serde(default)]
    node_name: Option<String>,
    #[serde(flatten)]
    other: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContainerDocument {
    name: String,
    #[serde(default)]
    command: Vec<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: Vec<Variable>,
    #[serde(default)]
    working_dir: Option<PathBuf>,
    #[serde(flatten)]
    other: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Variable {
    name: String,
    #[serde(default)]
    value: String,
    #[serde(default)]
    value_from: Option<Value>,
}

fn v1() -> String {
    "v1".to_owned()
}

impl PodManifest {
    pub(super) fn from_document(document: &Document) -> Result<Self, ManifestError> {
        let parsed: PodDocument = document.read()?;
        if parsed.api_version != "v1" {
            return Err(document.problem("apiVersion", "a Pod is of v1"));
        }
        refuse_unknown(document, "", &parsed.other, kubernetes::OBJECT)?;
        let (metadata, spec) = (parsed.metadata, parsed.spec);
        refuse_unknown(document, "metadata", &metadata.other, kubernetes::METADATA)?;
        refuse_unknown(document, "spec", &spec.other, kubernetes::POD_SPEC)?;
        if spec.host_network {
            return Err(document.problem(
                "spec.hostNetwork",
                "a pod on the node's own network has no interface that could be limited",
            ));
        }
        check_name(document, "metadata.name", &metadata.name)?;
        let namespace = metadata.namespace.unwrap_or_else(|| "default".to_owned());
        check_name(document, "metadata.namespace", &namespace)?;
        let containers = spec
            .containers
            .into_iter()
            .enumerate()
            .map(|(index, container)| container.check(document, index))
            .collect::<Result<_, _>>()?;
        let annotations = metadata.annotations.unwrap_or_default();
        let networks = match annotations.get(NETWORKS) {
            None => Vec::new(),
            Some(text) => wanted_networks(text, &namespace)
                .map_err(|why| document.problem(networks_path(), why))?,
        };
        Ok(Self {
            networks,
            node: spec.node_name.unwrap_or_default(),
            value: document.value.clone(),
            pod: Pod {
                // The API server would have given it one; any text does.
                uid: metadata
                    .uid
                    .unwrap_or_else(|| format!("{namespace}-{}", metadata.name)),
                name: metadata.name,
                namespace,
                annotations,
            },
            containers,
        })
    }

    /// The pod's name.
    pub fn name(&self) -> &str {
        &self.pod.name
    }

    /// True if it selects networks: then netqos-multinet attaches it.
    pub(crate) fn selects_networks(&self) -> bool {
        !self.networks.is_empty() || self.pod.annotations.contains_key(DEFAULT_NETWORK)
    }
}

impl ContainerDocument {
    fn check(self, document: &Document, index: usize) -> Result<Container, ManifestError> {
        let path = format!("spec.containers[{index}]");
        refuse_unknown(document, &path, &self.other, kubernetes::CONTAINER)?;
        if self.command.is_empty() && !self.args.is_empty() {
            return Err(document.problem(
                format!("{path}.args"),
                "there is no command that they could be of: images are not used here",
            ));
        }
        let mut env = Vec::new();
        for (number, variable) in self.env.into_iter().enumerate() {
            if variable.value_from.is_some() {
                return Err(document.problem(
                    format!("{path}.env[{number}].valueFrom"),
                    "there is nothing here that it could be taken from: write a value",
                ));
            }
            let value = expand(&variable.value, &env);
            env.push((variable.name, value));
        }
        let command = self.command.iter().chain(&self.args);
        Ok(Container {
            name: self.name,
            command: command.map(|word| expand(word, &env)).collect(),
            env,
            working_dir: self.working_dir,
        })
    }
}

/// Replaces `$(NAME)` by the variable's value as Kubernetes does: what is unknown stays, and `$$`
/// is a dollar sign.
fn expand(text: &str, env: &[(String, String)]) -> String {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        expanded.push_str(before);
        let named = after
            .strip_prefix('(')
            .and_then(|after| after.split_once(')'));
        let value = named.and_then(|(name, after)| {
            let (_, value) = env.iter().rev().find(|(known, _)| known == name)?;
            Some((value, after))
        });
        rest = match (value, after.strip_prefix('$')) {
            (Some((value, after)), _) => {
                expanded.push_str(value);
                after
            }
            (None, Some(after)) => {
                expanded.push('$');
                after
            }
            (None, None) => {
                expanded.push('$');
                after
            }
        };
    }
    expanded + rest
}

fn networks_path() -> String {
    format!("metadata.annotations[{NETWORKS}]")
}

/// The networks of the annotation, as netqos-multinet reads it.
fn wanted_networks(text: &str, pod_namespace: &str) -> Result<Vec<WantedNetwork>, String> {
    let selections = PodSelections::of(
        pod_namespace,
        Some(text),
        None,
        InterfaceNames::Net,
        DEFAULT_INTERFACE,
    );
    let selections = selections.map_err(|error| error.error.to_string())?;
    let wanted = selections.networks.into_iter();
    let wanted = wanted.map(|(selection, interface)| WantedNetwork {
        definition: selection.nad,
        interface,
        limits: selection.bandwidth,
    });
    Ok(wanted.collect())
}

/// A pod with fewer networks than it asked for must not come up.
pub(super) fn refuse_unknown_networks(
    place: &Path,
    pods: &[PodManifest],
    objects: &Objects,
) -> Result<(), ManifestError> {
    for pod in pods {
        for wanted in &pod.networks {
            if objects.network(&wanted.definition).is_none() {
                return Err(ManifestError::Field {
                    file: place.to_owned(),
                    path: networks_path(),
                    problem: format!(
                        "pod {} asks for {}, and there is no NetworkAttachmentDefinition of this name",
                        pod.name(),
                        wanted.definition
                    ),
                });
            }
        }
    }
    Ok(())
}

/// Puts each pod on the node that it names, else on the first. Where there is only one, all are on it,
/// whatever cluster they were taken from.
pub(super) fn place(
    folder: &Path,
    pods: &mut [PodManifest],
    nodes: &[String],
) -> Result<(), ManifestError> {
    for pod in pods {
        let names_one = nodes.len() > 1 && !pod.node.is_empty();
        if names_one && !nodes.contains(&pod.node) {
            return Err(ManifestError::Field {
                file: folder.to_owned(),
                path: "spec.nodeName".to_owned(),
                problem: format!(
                    "pod {} is on node {:?}; there are {}",
                    pod.name(),
                    pod.node,
                    nodes.join(", ")
                ),
            });
        }
        if !names_one {
            pod.node = nodes.first().cloned().unwrap_or_default();
        }
    }
    Ok(())
}

/// Names become parts of paths and arguments of plugins.
pub(super) fn check_name(document: &Document, path: &str, name: &str) -> Result<(), ManifestError> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    let is_end = |c: char| c.is_ascii_alphanumeric();
    let good = name.len() <= MAX_NAME
        && name.chars().all(allowed)
        && name.starts_with(is_end)
        && name.ends_with(is_end);
    if good {
        return Ok(());
    }
    Err(document.problem(
        path,
        format!(
            "{name:?} is not a name: use at most {MAX_NAME} lower-case letters, digits, '-' and '.', with a letter \
             or digit at both ends"
        ),
    ))
}

/// Pods are called by their names alone, so these must differ.
pub(super) fn refuse_twins(place: &Path, pods: &[PodManifest]) -> Result<(), ManifestError> {
    let mut seen = BTreeSet::new();
    match pods.iter().find(|pod| !seen.insert(pod.name())) {
        None => Ok(()),
        Some(twin) => Err(ManifestError::Field {
            file: place.to_owned(),
            path: "metadata.name".to_owned(),
            problem: format!("there are two pods {:?}", twin.name()),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn variables_are_expanded_as_kubernetes_does() {
        let env = [("A".to_owned(), "1".to_owned())];
        for (text, expected) in [
            ("x$(A)y", "x1y"),
            ("$(B)", "$(B)"),
            ("$$(A)", "$(A)"),
            ("$", "$"),
            ("$(A", "$(A"),
            ("$(A)$(A)", "11"),
        ] {
            assert_eq!(expand(text, &env), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn expanding_never_panics(text in "[$()A-C a]{0,40}") {
            let _ = expand(&text, &[("A".to_owned(), "$(A)".to_owned())]);
        }
    }
}
