//! The record of a pod's attachments, from which DEL, CHECK and GC work without agent and API server.

use std::io::ErrorKind;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use netqos_api::multinet::{CNI_DRIVER, PodName};
use netqos_api::npwg::NetworkStatus;
use netqos_cni::CniError;
use netqos_cni::runtime::{AttachmentRequest, NetworkConfigList};
use netqos_datapath::{Documents, FileLock};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::agent::try_again;

/// The longest wait for another call for the same sandbox, or for a plugin that outlives one.
const PATIENCE: Duration = Duration::from_secs(20);
/// How the name of a sandbox's lock ends.
const LOCK: &str = ".lock";

/// A sandbox with its attachments, in the order in which they are made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodRecord {
    /// The sandbox's ID.
    pub container_id: String,
    /// Its network namespace.
    pub netns: Option<PathBuf>,
    /// The pod, where the runtime says which.
    pub pod: Option<PodName>,
    /// The attachment to the default network, or to the one in its place, and behind it those that the pod selects.
    pub attachments: Vec<RecordedAttachment>,
    /// The number of attachments that are made. The next one may be half made.
    pub made: usize,
    /// The pod's `network-status`, once all attachments are made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Vec<NetworkStatus>>,
}

/// An attachment with all that its plugins are told, at ADD and at DEL.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedAttachment {
    /// The program that makes it: [`CNI_DRIVER`].
    pub driver: String,
    /// The NetworkAttachmentDefinition, `namespace/name`; `None` for the default network.
    pub nad: Option<String>,
    /// The interface's name in the pod.
    pub interface: String,
    /// The network configuration list.
    pub list: Map<String, Value>,
    /// `CNI_ARGS`.
    pub args: Vec<(String, String)>,
    /// The arguments of capabilities.
    pub capability_args: Map<String, Value>,
    /// The gateways of the pod's default routes, if they lead through this attachment; empty if the pod has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_route: Option<Vec<IpAddr>>,
}

/// The records of all sandboxes.
#[derive(Clone, Debug)]
pub struct PodRecords(Documents);

impl PodRecords {
    /// The records below this directory of state.
    pub fn new(state: &Path) -> Self {
        Self(Documents::new(state.join("pods")))
    }

    /// Waits until no other call makes or undoes attachments of a sandbox, and no plugin that such a call has executed.
    ///
    /// # Errors
    /// Returns an error of code 11 if that takes too long, and of code 5 if the lock cannot be had.
    pub fn lock(&self, container_id: &str) -> Result<FileLock, CniError> {
        let path = self.0.folder().join(format!("{container_id}{LOCK}"));
        let lock = FileLock::wait_at_most(&path, PATIENCE);
        let lock = lock.and_then(|lock| lock.pass_on().map(|()| lock));
        lock.map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => try_again(format!(
                "another call for container {container_id}, or a plugin that it has executed, still runs: {} is locked",
                path.display()
            )),
            _ => CniError::io(format!("{}: {error}", path.display())),
        })
    }

    /// Writes a record. Once this returns, it is on the disk.
    ///
    /// # Errors
    /// Returns an error of code 5 if it cannot be written.
    pub fn write(&self, record: &PodRecord, _lock: &FileLock) -> Result<(), CniError> {
        self.0.write(&record.container_id, record).map_err(io_error)
    }

    /// Returns the record of a sandbox. One that cannot be read is set aside, and is none.
    ///
    /// # Errors
    /// Returns an error of code 5 if the file cannot be read.
    pub fn read(&self, container_id: &str) -> Result<Option<PodRecord>, CniError> {
        self.0.read(container_id).map_err(io_error)
    }

    /// Returns the sandboxes of which there is a record, or a lock that a killed process has left.
    ///
    /// # Errors
    /// Returns an error of code 5 if the directory cannot be read.
    pub fn containers(&self) -> Result<Vec<String>, CniError> {
        let mut containers = self.0.names().map_err(io_error)?;
        containers.extend(self.0.names_with(LOCK).map_err(io_error)?);
        Ok(containers)
    }

    /// Removes a record and the sandbox's lock.
    ///
    /// # Errors
    /// Returns an error of code 5 if it cannot be removed.
    pub fn remove(&self, container_id: &str, lock: FileLock) -> Result<(), CniError> {
        self.0.remove(container_id).map_err(io_error)?;
        lock.remove()
            .map_err(|error| CniError::io(format!("the lock of container {container_id}: {error}")))
    }
}

impl RecordedAttachment {
    /// Returns the list and the request with which the plugins are executed.
    ///
    /// # Errors
    /// Returns an error if the driver is another one, or the list cannot be read.
    pub fn call(
        &self,
        record: &PodRecord,
    ) -> Result<(NetworkConfigList, AttachmentRequest), CniError> {
        if self.driver != CNI_DRIVER {
            return Err(CniError::internal(format_args!(
                "attachment {}: driver {:?} is not known to this version",
                self.interface, self.driver
            )));
        }
        let text = Value::Object(self.list.clone()).to_string();
        let list = NetworkConfigList::parse(text.as_bytes()).map_err(CniError::internal)?;
        let request = AttachmentRequest {
            container_id: record.container_id.clone(),
            ifname: self.interface.clone(),
            netns: record.netns.clone(),
            args: self.args.clone(),
            capability_args: self.capability_args.clone(),
        };
        Ok((list, request))
    }
}

fn io_error(error: netqos_datapath::Error) -> CniError {
    CniError::io(error.to_string())
}
