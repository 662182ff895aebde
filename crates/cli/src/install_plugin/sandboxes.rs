//! The sandboxes with attachments by `netqos-multinet`, from its state directory.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use netqos_api::multinet::{LOCK_ENDING, PodRecord};
use netqos_cni::runtime::{CachedAttachment, Runtime};
use netqos_datapath::{Documents, FileLock};
use serde::Serialize;
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

/// What may be left of an attachment.
#[derive(Debug, Serialize)]
pub struct LeftAttachment {
    /// The name of the CNI network.
    pub network: String,
    /// The interface in the pod.
    pub interface: String,
    /// The links on the node.
    pub links: Vec<String>,
    /// The addresses, with their prefixes.
    pub addresses: Vec<String>,
    /// The plugins of the list, and those of IPAM.
    pub plugins: Vec<String>,
}

impl LeftAttachment {
    fn new(network: &str, interface: &str, list: &Value, result: &Value) -> Self {
        let entries = |of: &Value, key: &str| of[key].as_array().cloned().unwrap_or_default();
        let text = |it: &Value| it.as_str().map(str::to_owned);
        // Links of the pod name their sandbox.
        let on_node = |it: &Value| it["sandbox"].as_str().is_none_or(str::is_empty);
        let links = entries(result, "interfaces").into_iter();
        let addresses = entries(result, "ips").into_iter();
        let mut plugins = entries(list, "plugins");
        if plugins.is_empty() {
            plugins.push(list.clone());
        }
        let types = plugins
            .iter()
            .flat_map(|it| [&it["type"], &it["ipam"]["type"]]);
        Self {
            network: network.to_owned(),
            interface: interface.to_owned(),
            links: links
                .filter(on_node)
                .filter_map(|it| text(&it["name"]))
                .collect(),
            addresses: addresses.filter_map(|it| text(&it["address"])).collect(),
            plugins: types.filter_map(text).collect(),
        }
    }
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
    pub fn lock(&self, container_id: &str) -> PathBuf {
        let name = format!("{container_id}{LOCK_ENDING}");
        self.records.folder().join(name)
    }

    /// The sandboxes whose ADD or DEL runs, or was killed, and those with a record.
    ///
    /// # Errors
    /// Returns an error if the directory is there and cannot be read.
    pub fn containers(&self) -> Result<Vec<String>, netqos_datapath::Error> {
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

    /// The sandboxes whose last DEL failed, or whose record cannot be read, each with the reason.
    ///
    /// # Errors
    /// Returns an error if the directory is there and cannot be read.
    pub fn failed(&self) -> Result<Vec<(Sandbox, String)>, netqos_datapath::Error> {
        let failure = |it: Sandbox| match self.record(&it.container_id) {
            Some(record) => Some((it, record.failure?)),
            None => Some((it, "its record is missing or cannot be read".to_owned())),
        };
        Ok(self.all()?.into_iter().filter_map(failure).collect())
    }

    /// The attachments of a sandbox that may be left, by their results, or by the record where they have none.
    pub fn left(&self, container_id: &str) -> Vec<LeftAttachment> {
        let results = self.results().cached_attachments().into_iter();
        let results = results.filter(|it| it.container_id == container_id);
        let of_result = |it: CachedAttachment| {
            let list = serde_json::from_slice(&it.config).unwrap_or_default();
            LeftAttachment::new(&it.network, &it.ifname, &list, &it.result)
        };
        let mut left: Vec<LeftAttachment> = results.map(of_result).collect();
        for it in { self.record(container_id) }.map_or_else(Vec::new, |it| it.attachments) {
            if !left.iter().any(|known| known.interface == it.interface) {
                let list = Value::Object(it.list.clone());
                let (network, interface) = (it.network(), &it.interface);
                left.push(LeftAttachment::new(network, interface, &list, &Value::Null));
            }
        }
        left
    }

    /// Gives up what may be left of a sandbox. The record that stays lists nothing, so that the next DEL or GC removes it
    /// without a call of any plugin.
    ///
    /// # Errors
    /// Returns an error if the record cannot be written.
    pub fn give_up(&self, container_id: &str, _: &FileLock) -> Result<(), netqos_datapath::Error> {
        let record = self.record(container_id);
        let nothing = PodRecord {
            container_id: container_id.to_owned(),
            netns: record.as_ref().and_then(|it| it.netns.clone()),
            list: record.as_ref().and_then(|it| it.list.clone()),
            pod: record.and_then(|it| it.pod),
            attachments: Vec::new(),
            made: 0,
            status: None,
            hand_over: None,
            failure: None,
        };
        // Last: a DEL without a record would go by the results.
        let results = self.results().cached_attachments().into_iter();
        let of_sandbox = results.filter(|it| it.container_id == container_id);
        of_sandbox.for_each(|it| self.results().forget(&it));
        self.records.write(container_id, &nothing)
    }

    /// The file of a sandbox's record.
    pub fn file(&self, container_id: &str) -> PathBuf {
        self.records.folder().join(format!("{container_id}.json"))
    }

    /// The record of a sandbox, unless it cannot be read.
    pub fn record(&self, container_id: &str) -> Option<PodRecord> {
        let record: Option<PodRecord> = self.records.peek(container_id);
        record.filter(|it| it.container_id == container_id)
    }

    /// The name of a sandbox's pod, by its record or its results.
    pub fn name(&self, container_id: &str) -> String {
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
