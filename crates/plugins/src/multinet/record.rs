//! The record of a pod's attachments, from which DEL, CHECK and GC work without agent and API server.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use netqos_api::multinet::{CNI_DRIVER, LOCK_ENDING, PodRecord, RecordedAttachment};
use netqos_cni::CniError;
use netqos_cni::runtime::{AttachmentRequest, NetworkConfigList};
use netqos_datapath::{Documents, FileLock};

use super::agent::try_again;

/// The longest wait for another call for the same sandbox, or for a plugin that outlives one.
const PATIENCE: Duration = Duration::from_secs(20);
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
        self.try_lock(container_id).map_err(|(_, error)| error)
    }

    /// As [`lock`](Self::lock), but returns none if the disk is full: no ADD can be under way for a sandbox without a lock.
    ///
    /// # Errors
    /// See [`lock`](Self::lock).
    pub fn lock_if_it_fits(&self, container_id: &str) -> Result<Option<FileLock>, CniError> {
        match self.try_lock(container_id) {
            Ok(lock) => Ok(Some(lock)),
            Err((ErrorKind::StorageFull | ErrorKind::QuotaExceeded, _)) => Ok(None),
            Err((_, error)) => Err(error),
        }
    }

    fn try_lock(&self, container_id: &str) -> Result<FileLock, (ErrorKind, CniError)> {
        let path = self.0.folder().join(format!("{container_id}{LOCK_ENDING}"));
        let lock = FileLock::wait_at_most(&path, PATIENCE);
        let lock = lock.and_then(|lock| lock.pass_on().map(|()| lock));
        lock.map_err(|error| {
            let answer = match error.kind() {
                ErrorKind::WouldBlock => try_again(format!(
                    "another call for container {container_id}, or a plugin that it has executed, still runs: {} is locked",
                    path.display()
                )),
                _ => CniError::io(format!("{}: {error}", path.display())),
            };
            (error.kind(), answer)
        })
    }

    /// The file of a sandbox's record.
    pub fn path(&self, container_id: &str) -> PathBuf {
        self.0.folder().join(format!("{container_id}.json"))
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
        containers.extend(self.0.names_with(LOCK_ENDING).map_err(io_error)?);
        Ok(containers)
    }

    /// Removes a record and the sandbox's lock, if there is one.
    ///
    /// # Errors
    /// Returns an error of code 5 if it cannot be removed.
    pub fn remove(
        &self,
        container_id: &str,
        lock: impl Into<Option<FileLock>>,
    ) -> Result<(), CniError> {
        self.0.remove(container_id).map_err(io_error)?;
        let removed = lock.into().map_or(Ok(()), FileLock::remove);
        removed
            .map_err(|error| CniError::io(format!("the lock of container {container_id}: {error}")))
    }
}

/// Returns the list and the request with which the plugins of an attachment are executed.
///
/// # Errors
/// Returns an error if the driver is another one, or the list cannot be read.
pub fn call(
    record: &PodRecord,
    attachment: &RecordedAttachment,
) -> Result<(NetworkConfigList, AttachmentRequest), CniError> {
    if attachment.driver != CNI_DRIVER {
        return Err(CniError::internal(format_args!(
            "attachment {}: driver {:?} is not known to this version",
            attachment.interface, attachment.driver
        )));
    }
    AttachmentRequest::recorded(record, attachment).map_err(CniError::internal)
}

fn io_error(error: netqos_datapath::Error) -> CniError {
    CniError::io(error.to_string())
}
