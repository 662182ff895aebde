//! What a run has made, written down before it is made, so that whoever comes after a crash can
//! take it away.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use netqos_cni::kubelet::{Pod, Sandbox};
use serde::{Deserialize, Serialize};

use crate::LabError;
use crate::process::Process;

#[cfg(test)]
mod round_trip;

/// Where the states of labs are.
pub const LABS: &str = "/run/netqos/lab";
/// Where `ip netns` looks for network namespaces.
const NETNS: &str = "/run/netns";
/// What the names of all network namespaces of labs start with.
const PREFIX: &str = "nqlab";
/// The name of the record in a lab's folder.
const FILE: &str = "lab.json";
/// Longer names of pods are cut in the names of their namespaces, which are file names.
const MAX_NAME: usize = 48;

/// One run of a lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// Its name, unique on this machine.
    pub run: String,
    /// The scenario's name.
    pub scenario: String,
    /// The folder that describes it.
    pub source: PathBuf,
    /// When it was started, in seconds since 1970.
    pub started: u64,
    /// The process that runs it; `None` when it was kept.
    pub owner: Option<Process>,
    /// The nodes that were made.
    pub nodes: Vec<NodeRecord>,
}

/// One node, with its pods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeRecord {
    /// What sets it apart from the run's other nodes; empty for the only one, or the one with netqos.
    pub side: String,
    /// Where plugins are looked for, in this order.
    pub plugin_dirs: Vec<PathBuf>,
    /// Its pods.
    pub pods: Vec<PodRecord>,
    /// The hosts outside that it is the router of.
    #[serde(default)]
    pub outside: Vec<PodRecord>,
    /// The agent that runs on it.
    #[serde(default)]
    pub agent: Option<Process>,
}

/// One pod of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodRecord {
    /// Its name.
    pub name: String,
    /// Its namespace in Kubernetes.
    pub namespace: String,
    /// Its uid.
    pub uid: String,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// The name of its network namespace, and its container id.
    pub netns: String,
    /// The networks of a host outside. Those of a pod are in the record of `netqos-multinet`.
    #[serde(default)]
    pub networks: Vec<JoinedNetwork>,
    /// What runs in it.
    pub processes: Vec<Process>,
}

/// A network that a host outside has joined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinedNetwork {
    /// The name of its file, without `.conflist`.
    pub file: String,
    /// The pod's interface.
    pub interface: String,
}

impl Record {
    /// A run that has made nothing yet, under a name that no other has; its folder is made.
    pub(crate) fn create(scenario: &str, source: &Path) -> Result<Self, LabError> {
        fs::create_dir_all(LABS).map_err(LabError::io("make folder", LABS))?;
        let owner = Process::this();
        let mut number = owner.pid.unsigned_abs();
        loop {
            let run = format!("{number:x}");
            let folder = Path::new(LABS).join(&run);
            match fs::create_dir(&folder) {
                Ok(()) => {
                    let started = SystemTime::now().duration_since(UNIX_EPOCH);
                    let record = Self {
                        run,
                        scenario: scenario.to_owned(),
                        source: source.to_owned(),
                        started: started.unwrap_or_default().as_secs(),
                        owner: Some(owner),
                        nodes: Vec::new(),
                    };
                    record.write()?;
                    return Ok(record);
                }
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(LabError::io("make folder", folder)(error)),
            }
        }
    }

    /// Reads the record of a run.
    pub(crate) fn read(run: &str) -> Result<Self, LabError> {
        // The name of a folder, and nothing that leads elsewhere.
        if run.is_empty() || !run.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(LabError::NoSuchLab(run.to_owned()));
        }
        let path = Path::new(LABS).join(run).join(FILE);
        let text = match fs::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(LabError::NoSuchLab(run.to_owned()));
            }
            text => text.map_err(LabError::io("read", &path))?,
        };
        Self::from_text(&text).map_err(|error| LabError::io("understand", path)(error.into()))
    }

    fn from_text(text: &[u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(text)
    }

    fn to_text(&self) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec_pretty(self)
    }

    /// Every run that there is, in the order of their names. A folder without a record is that of
    /// a run which was stopped before it made anything, and is passed over.
    pub(crate) fn all() -> Result<Vec<Self>, LabError> {
        let entries = match fs::read_dir(LABS) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(LabError::io("read folder", LABS))?,
        };
        let mut runs: Vec<_> = entries
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        runs.sort();
        runs.iter()
            .map(|run| Self::read(run))
            .filter(|record| !matches!(record, Err(LabError::NoSuchLab(_))))
            .collect()
    }

    /// Writes it: the file is there whole, or as it was before.
    pub(crate) fn write(&self) -> Result<(), LabError> {
        let path = self.folder().join(FILE);
        let draft = path.with_extension("tmp");
        self.to_text()
            .map_err(Into::into)
            .and_then(|text| fs::write(&draft, text))
            .and_then(|()| fs::rename(&draft, &path))
            .map_err(LabError::io("write", path))
    }

    /// The process that runs it, if it is still at work.
    pub(crate) fn living_owner(&self) -> Option<Process> {
        self.owner.filter(|owner| owner.is_alive())
    }

    /// Its folder, where all of its files are.
    pub fn folder(&self) -> PathBuf {
        Path::new(LABS).join(&self.run)
    }

    /// A folder of one of its nodes.
    pub(crate) fn node_folder(&self, node: &NodeRecord) -> PathBuf {
        self.folder().join(match node.side.as_str() {
            "" => "node",
            side => side,
        })
    }

    /// The name of a node's network namespace.
    pub fn node_netns(&self, node: &NodeRecord) -> String {
        self.netns_of(&node.side, "node")
    }

    /// The name of a pod's network namespace: other than all others, and with the pod's name in it.
    pub(crate) fn pod_netns(&self, side: &str, index: usize, pod: &str) -> String {
        match pod.get(..MAX_NAME) {
            Some(start) if pod.len() > MAX_NAME => self.netns_of(side, &format!("{start}_{index}")),
            _ => self.netns_of(side, pod),
        }
    }

    /// The name of the network namespace of a host outside, which is not that of a pod.
    pub(crate) fn outside_netns(&self, side: &str, name: &str) -> String {
        self.netns_of(side, &format!("outside_{name}"))
    }

    /// No name of a pod holds an underscore, so that a side's and a pod's name can't be mistaken.
    fn netns_of(&self, side: &str, name: &str) -> String {
        match side {
            "" => format!("{PREFIX}-{}-{name}", self.run),
            side => format!("{PREFIX}-{}-{side}_{name}", self.run),
        }
    }
}

impl PodRecord {
    /// The pod, as who plays the kubelet wants it.
    pub(crate) fn pod(&self) -> Pod {
        Pod {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            annotations: self.annotations.clone(),
        }
    }

    /// The pod, as its further networks see it: its annotations are about the first one.
    pub(crate) fn plain_pod(&self) -> Pod {
        Pod {
            annotations: BTreeMap::new(),
            ..self.pod()
        }
    }

    /// Its sandbox.
    pub(crate) fn sandbox(&self) -> Sandbox {
        Sandbox::new(&self.netns, netns_path(&self.netns))
    }

    /// Its sandbox, for another interface.
    pub(crate) fn sandbox_for(&self, interface: &str) -> Sandbox {
        Sandbox {
            ifname: interface.to_owned(),
            ..self.sandbox()
        }
    }
}

/// The file that names a network namespace.
pub fn netns_path(name: &str) -> PathBuf {
    Path::new(NETNS).join(name)
}
