//! What is to be built and measured: a folder of YAML and one network configuration list.
//!
//! | file | holds |
//! |---|---|
//! | `*.yaml`, `*.yml`, `*.json` | Pods (`v1`), one Scenario (`lab.netqos.io/v1alpha1`), and objects for the agent, several documents to a file or not |
//! | `*.conflist` | the network, as in `/etc/cni/net.d` |
//!
//! A field that nobody knows is an error, in pods too: a misspelt `annotations` would be a pod
//! without limits.

mod error;
mod kubernetes;
mod objects;
mod pod;
mod scenario;
#[cfg(test)]
mod tests;
mod values;

use std::fs;
use std::path::{Path, PathBuf};

use netqos_cni::runtime::NetworkConfigList;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use error::ManifestError;
pub use objects::{MeteredRule, ObjectManifest, Objects, RuleName, SecondNetwork};
pub use pod::{Container, PodManifest, WantedNetwork};
pub use scenario::{
    Change, Expect, Family, HeldTo, Load, Measurement, Outside, Place, Reaches, Scenario, What,
};

/// Everything that a folder describes.
#[derive(Clone, Debug)]
pub struct Manifests {
    /// The pods, in the order in which they were found.
    pub pods: Vec<PodManifest>,
    /// The network that all of them are on.
    pub network: NetworkConfigList,
    /// What else there is.
    pub objects: Objects,
    /// What is measured.
    pub scenario: Scenario,
}

/// One YAML document, and where it stands.
pub(crate) struct Document {
    file: PathBuf,
    value: Value,
}

impl Manifests {
    /// Reads a folder.
    ///
    /// # Errors
    ///
    /// The first mistake, with its file and the path of the field.
    pub fn read(folder: &Path) -> Result<Self, ManifestError> {
        let (mut pods, mut scenarios, mut networks) = (Vec::new(), Vec::new(), Vec::new());
        let mut objects = Objects::default();
        for file in files(folder)? {
            if has_extension(&file, &["conflist"]) {
                networks.push(file);
                continue;
            }
            for document in documents(&file)? {
                match document.kind() {
                    Some("Pod") => pods.push(PodManifest::from_document(&document)?),
                    Some("Scenario") => scenarios.push(document),
                    Some(kind) if Objects::knows(kind) => objects.put(&document, kind)?,
                    kind => return Err(document.of_unknown_kind(kind)),
                }
            }
        }
        pod::refuse_twins(folder, &pods)?;
        pod::place(folder, &mut pods, &objects.nodes())?;
        pod::refuse_unknown_networks(folder, &pods, &objects)?;
        objects.complete(pods.iter().map(|pod| pod.pod.namespace.as_str()));
        let scenario = only_one(folder, "Scenario document", scenarios)?;
        let network = only_one(folder, "*.conflist file", networks)?;
        Ok(Self {
            scenario: Scenario::from_document(&scenario, &pods, &objects)?,
            network: NetworkConfigList::from_file(&network)?,
            objects,
            pods,
        })
    }
}

impl Manifests {
    /// True when an agent is needed.
    pub(crate) fn need_an_agent(&self) -> bool {
        self.objects.need_an_agent() || self.pods.iter().any(PodManifest::selects_networks)
    }

    /// The pods of a node, in their order.
    pub(crate) fn pods_of(&self, node: &str) -> impl Iterator<Item = &PodManifest> {
        self.pods.iter().filter(move |pod| pod.node == node)
    }
}

impl Document {
    fn kind(&self) -> Option<&str> {
        self.value.get("kind").and_then(Value::as_str)
    }

    fn of_unknown_kind(&self, kind: Option<&str>) -> ManifestError {
        self.problem(
            "kind",
            match kind {
                Some(kind) => format!(
                    "a {kind} is nothing to build here: Pod and Scenario are, and beside them \
                     NetworkQoS, Namespace, NetworkAttachmentDefinition, \
                     NetworkAttachmentPolicy, Service, EndpointSlice, ConfigMap, Node and NodeSLO"
                ),
                None => "missing: a document says what it is, as Pod or Scenario".to_owned(),
            },
        )
    }

    /// Says what is wrong at a path of this document.
    pub(crate) fn problem(
        &self,
        path: impl Into<String>,
        problem: impl Into<String>,
    ) -> ManifestError {
        ManifestError::Field {
            file: self.file.clone(),
            path: path.into(),
            problem: problem.into(),
        }
    }

    /// Reads the whole document as a type.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, ManifestError> {
        serde_path_to_error::deserialize(&self.value).map_err(|error| {
            let path = error.path().to_string();
            self.problem(path, error.into_inner().to_string())
        })
    }
}

fn documents(file: &Path) -> Result<Vec<Document>, ManifestError> {
    let text = fs::read_to_string(file).map_err(|source| ManifestError::Read {
        path: file.to_owned(),
        source,
    })?;
    parse(file, &text)
}

/// The documents of a text; empty ones are none.
pub(crate) fn parse(file: &Path, text: &str) -> Result<Vec<Document>, ManifestError> {
    let values: Vec<Value> =
        serde_saphyr::from_multiple(text).map_err(|error| ManifestError::Syntax {
            file: file.to_owned(),
            problem: error.to_string(),
        })?;
    Ok(values
        .into_iter()
        .filter(|value| !value.is_null())
        .map(|value| Document {
            file: file.to_owned(),
            value,
        })
        .collect())
}

/// The files of a folder that may hold something, by name.
fn files(folder: &Path) -> Result<Vec<PathBuf>, ManifestError> {
    let failed = |source| ManifestError::Read {
        path: folder.to_owned(),
        source,
    };
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if has_extension(&path, &["yaml", "yml", "json", "conflist"]) && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn has_extension(path: &Path, extensions: &[&str]) -> bool {
    path.extension()
        .and_then(|extension| extension.to_str())
        .is_some_and(|extension| extensions.contains(&extension))
}

fn only_one<T>(folder: &Path, what: &'static str, found: Vec<T>) -> Result<T, ManifestError> {
    let count = found.len();
    let mut found = found.into_iter();
    match (found.next(), count) {
        (Some(one), 1) => Ok(one),
        (None, _) => Err(ManifestError::Missing {
            folder: folder.to_owned(),
            what,
        }),
        (Some(_), count) => Err(ManifestError::TooMany {
            folder: folder.to_owned(),
            what,
            count,
        }),
    }
}
