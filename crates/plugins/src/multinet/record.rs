//! The record of a pod's attachments, from which DEL, CHECK and GC work without agent and API server.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use netqos_api::multinet::{CNI_DRIVER, PodName};
use netqos_api::npwg::NetworkStatus;
use netqos_cni::CniError;
use netqos_cni::runtime::{AttachmentRequest, NetworkConfigList};
use netqos_datapath::Documents;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

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
    /// The default network's attachment, and behind it those that the pod selects.
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
    /// The gateways of the pod's default routes, if they lead through this attachment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub default_route: Vec<IpAddr>,
}

/// The records of all sandboxes.
#[derive(Clone, Debug)]
pub struct PodRecords(Documents);

impl PodRecords {
    /// The records below this directory of state.
    pub fn new(state: &Path) -> Self {
        Self(Documents::new(state.join("pods")))
    }

    /// Writes a record. Once this returns, it is on the disk.
    ///
    /// # Errors
    /// Returns an error of code 5 if it cannot be written.
    pub fn write(&self, record: &PodRecord) -> Result<(), CniError> {
        self.0.write(&record.container_id, record).map_err(io_error)
    }

    /// Returns the record of a sandbox. One that cannot be read is set aside, and is none.
    ///
    /// # Errors
    /// Returns an error of code 5 if the file cannot be read.
    pub fn read(&self, container_id: &str) -> Result<Option<PodRecord>, CniError> {
        self.0.read(container_id).map_err(io_error)
    }

    /// Returns all records.
    ///
    /// # Errors
    /// Returns an error of code 5 if the directory cannot be read.
    pub fn all(&self) -> Result<Vec<PodRecord>, CniError> {
        self.0.all().map_err(io_error)
    }

    /// Removes a record.
    ///
    /// # Errors
    /// Returns an error of code 5 if it cannot be removed.
    pub fn remove(&self, container_id: &str) -> Result<(), CniError> {
        self.0.remove(container_id).map_err(io_error)
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
