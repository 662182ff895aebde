//! The sandboxes with attachments by `netqos-multinet`, from its state directory.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use netqos_api::multinet::{LOCK_ENDING, PodRecord};
use netqos_cni::runtime::{CachedAttachment, Runtime};
use netqos_datapath::{Documents, FileLock};
use serde_json::{Map, Value};

use super::{Problem, failed};

/// The state of `netqos-multinet`.
#[derive(Debug)]
pub struct Sandboxes {
    state: PathBuf,
    records: Documents,
}

/// A sandbox with attachments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sandbox {
    /// Its ID.
    pub container_id: String,
    /// Its network namespace, where that is known.
    pub netns: Option<PathBuf>,
    /// The pod, `namespace/name`, or the container.
    pub name: String,
    /// The record is there and can be read.
    pub has_record: bool,
}

impl Sandboxes {
    /// The state in this directory.
    pub fn new(state: &Path) -> Self {
        let records = Documents::new(state.join("pods"));
        let state = state.to_owned();
        Self { state, records }
    }

    /// The state of the plugin with this configuration, by default in this directory.
    pub(super) fn of(config: &Map<String, Value>, state: &Path) -> Self {
        let key = config.get("stateDir").and_then(Value::as_str);
        Self::new(key.map_or(state, Path::new))
    }

    pub(super) fn state(&self) -> &Path {
        &self.state
    }

    pub(super) const fn records(&self) -> &Documents {
        &self.records
    }

    /// The cache of the attachments' results.
    pub(super) fn results(&self) -> Runtime {
        let none: [PathBuf; 0] = [];
        Runtime::new(none, &self.state)
    }

    /// The file that excludes ADD and DEL of a sandbox.
    pub(super) fn lock(&self, container_id: &str) -> PathBuf {
        let name = format!("{container_id}{LOCK_ENDING}");
        self.records.folder().join(name)
    }

    /// The sandboxes whose ADD or DEL runs, or was killed, and those with a record.
    ///
    /// # Errors
    /// Returns an error if the directory is there and cannot be read.
    pub(super) fn containers(&self) -> Result<Vec<String>, netqos_datapath::Error> {
        let mut containers = self.records.names()?;
        containers.extend(self.records.names_with(LOCK_ENDING)?);
        containers.sort();
        containers.dedup();
        Ok(containers)
    }

    /// The sandboxes with an ADD or DEL that runs and has no record: a runtime may have called the plugin just before its list
    /// went. Locks that killed ones left are removed.
    ///
    /// # Errors
    /// Returns an error if the directory or a lock cannot be read.
    pub(super) fn in_flight(&self) -> Result<Vec<String>, Problem> {
        let mut busy = Vec::new();
        for container_id in self.containers()? {
            if self.record(&container_id).is_some() {
                continue;
            }
            let path = self.lock(&container_id);
            match FileLock::attempt(&path) {
                // It may have ended meanwhile, with a record.
                Ok(_) if self.record(&container_id).is_some() => {
                    busy.push(self.name(&container_id))
                }
                Ok(lock) => lock.remove().map_err(|error| failed(&path, error))?,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    busy.push(self.name(&container_id));
                }
                Err(error) => return Err(failed(&path, error)),
            }
        }
        Ok(busy)
    }

    /// The pods with an attachment whose list has a plugin of this type.
    ///
    /// # Errors
    /// Returns an error if the directory is there and cannot be read.
    pub(super) fn with_plugin(&self, kind: &str) -> Result<Vec<String>, netqos_datapath::Error> {
        let names = self.records.names()?.into_iter();
        let records = names.filter_map(|it| self.record(&it));
        let has_it = |record: &PodRecord| record.attachments.iter().any(|it| it.has_plugin(kind));
        let pods = records.filter(has_it);
        Ok(pods.map(|it| name(&it.container_id, pod_of(&it))).collect())
    }

    /// All sandboxes with attachments, also those whose record cannot be read, or that have results alone.
    ///
    /// # Errors
    /// Returns an error if the directory is there and cannot be read.
    pub fn all(&self) -> Result<Vec<Sandbox>, netqos_datapath::Error> {
        let mut sandboxes = BTreeMap::new();
        for result in self.results().cached_attachments() {
            let sandbox = || of_result(&result);
            let id = result.container_id.clone();
            sandboxes.entry(id).or_insert_with(sandbox);
        }
        for container_id in self.records.names()? {
            let record = self.record(&container_id);
            if record.is_none() && sandboxes.contains_key(&container_id) {
                continue;
            }
            let sandbox = Sandbox {
                name: name(&container_id, record.as_ref().and_then(pod_of)),
                has_record: record.is_some(),
                netns: record.and_then(|it| it.netns),
                container_id: container_id.clone(),
            };
            sandboxes.insert(container_id, sandbox);
        }
        Ok(sandboxes.into_values().collect())
    }

    /// The record of a sandbox, unless it cannot be read.
    pub(super) fn record(&self, container_id: &str) -> Option<PodRecord> {
        let record: Option<PodRecord> = self.records.peek(container_id);
        record.filter(|it| it.container_id == container_id)
    }

    /// The name of a sandbox's pod, by its record or its results.
    pub(super) fn name(&self, container_id: &str) -> String {
        if let Some(pod) = self.record(container_id).as_ref().and_then(pod_of) {
            return pod;
        }
        let results = self.results().cached_attachments();
        let result = results.iter().find(|it| it.container_id == container_id);
        name(container_id, result.and_then(pod_in_args))
    }
}

impl Sandbox {
    /// Returns true unless the network namespace is gone. In a container that does not see the host's namespaces each
    /// one may be there.
    pub(super) fn may_be_alive(&self) -> bool {
        let Some(netns) = &self.netns else {
            // Of a record that cannot be read nothing is known.
            return !self.has_record;
        };
        netns.exists() || !netns.parent().is_some_and(Path::exists)
    }
}

fn of_result(result: &CachedAttachment) -> Sandbox {
    Sandbox {
        container_id: result.container_id.clone(),
        netns: result.netns.clone(),
        name: name(&result.container_id, pod_in_args(result)),
        has_record: false,
    }
}

fn pod_of(record: &PodRecord) -> Option<String> {
    let pod = record.pod.as_ref()?;
    Some(format!("{}/{}", pod.namespace, pod.name))
}

fn pod_in_args(result: &CachedAttachment) -> Option<String> {
    let get = |key: &str| result.args.iter().find(|(known, _)| known == key);
    let (namespace, name) = (get("K8S_POD_NAMESPACE")?, get("K8S_POD_NAME")?);
    Some(format!("{}/{}", namespace.1, name.1))
}

fn name(container_id: &str, pod: Option<String>) -> String {
    pod.unwrap_or_else(|| format!("container {container_id}"))
}
