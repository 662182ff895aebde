//! What is remembered about an attachment: written before the kernel is changed, removed after it
//! is restored.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use netqos_core::{Attachment, Direction, Limits};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::hook::HookKind;
use crate::{Error, Result};

#[cfg(test)]
mod round_trip;

/// What netqos did, or was about to do, for an attachment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Whose it is.
    pub attachment: Attachment,
    /// The file that names the pod's network namespace.
    pub netns: PathBuf,
    /// What it is held to.
    pub limits: Limits,
    /// What was made.
    pub queues: Vec<QueueRecord>,
}

/// One queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueRecord {
    /// Which limit it holds.
    pub direction: Direction,
    /// On which side it is.
    pub side: SideName,
    /// The link that carries it.
    pub link: LinkRecord,
    /// The link whose traffic is sent through it, when that is another: it carries an ifb then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detour_from: Option<LinkRecord>,
    /// How the ranking program is attached.
    pub hook: HookKind,
    /// Its limiter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limiter: Option<u16>,
    /// Why it is not ranked, when it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unranked_because: Option<String>,
}

/// A link, and what netqos added to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkRecord {
    /// Its name.
    pub name: String,
    /// Its number; 0 until it is made.
    pub index: u32,
    /// True when its clsact is ours.
    #[serde(default)]
    pub made_clsact: bool,
    /// True when its alias is our tag; false when it had another.
    #[serde(default)]
    pub tagged: bool,
    /// Its transmit queue length, while another is set for a moment: what to go back to when that
    /// moment was the last of a process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tx_queue_len: Option<u32>,
}

/// A side of the pod's network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SideName {
    /// The host's.
    Host,
    /// Inside of the pod's namespace.
    Pod,
}

/// The folder of records.
#[derive(Clone, Debug)]
pub struct Records {
    folder: PathBuf,
}

/// Keeps others from changing the same attachment; ends with the process at the latest.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Records {
    /// The records in this folder, which need not exist yet.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Waits until nobody else changes this attachment.
    pub(crate) fn lock(&self, attachment: &Attachment) -> Result<Lock> {
        let path = self.path(attachment, "lock");
        let failed = |source| Error::Record {
            path: path.clone(),
            source,
        };
        fs::create_dir_all(&self.folder).map_err(failed)?;
        loop {
            let file = OpenOptions::new()
                .create(true)
                .truncate(false)
                .write(true)
                .mode(0o600)
                .open(&path)
                .map_err(failed)?;
            flock(&file, FlockOperation::LockExclusive).map_err(|errno| failed(errno.into()))?;
            // Whoever held it before may have removed the file; then it locks nothing any more.
            let ours = file.metadata().map_err(failed)?.ino();
            if fs::metadata(&path).is_ok_and(|there| there.ino() == ours) {
                return Ok(Lock { _file: file });
            }
        }
    }

    /// The record of this attachment. One that cannot be read is set aside under its name plus
    /// `.corrupt`, and is none.
    pub fn read(&self, attachment: &Attachment) -> Result<Option<Record>> {
        self.read_file(&self.path(attachment, "json"))
    }

    /// All records.
    pub fn all(&self) -> Result<Vec<Record>> {
        let entries = match fs::read_dir(&self.folder) {
            Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(|source| Error::Record {
                path: self.folder.clone(),
                source,
            })?,
        };
        let mut records = Vec::new();
        for entry in entries.flatten() {
            let path = entry.path();
            if path
                .extension()
                .is_some_and(|extension| extension == "json")
            {
                records.extend(self.read_file(&path)?);
            }
        }
        Ok(records)
    }

    /// Writes a record, whole or not at all.
    pub(crate) fn write(&self, record: &Record) -> Result<()> {
        let path = self.path(&record.attachment, "json");
        let fresh = self.path(&record.attachment, "new");
        let failed = |source| Error::Record {
            path: path.clone(),
            source,
        };
        fs::create_dir_all(&self.folder).map_err(failed)?;
        let bytes = serde_json::to_vec(record).map_err(|error| failed(error.into()))?;
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(true)
            .write(true)
            .mode(0o600)
            .open(&fresh)
            .map_err(failed)?;
        file.write_all(&bytes).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        fs::rename(&fresh, &path).map_err(failed)
    }

    /// Forgets an attachment. The lock, which the caller holds, goes too.
    pub(crate) fn remove(&self, attachment: &Attachment, _lock: &Lock) -> Result<()> {
        for extension in ["json", "new", "lock"] {
            let path = self.path(attachment, extension);
            match fs::remove_file(&path) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    return Err(Error::Record { path, source });
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn path(&self, attachment: &Attachment, extension: &str) -> PathBuf {
        // Names without colons and slashes, joined by colons: no two attachments share a file.
        let (network, container) = (attachment.network(), attachment.container());
        self.folder.join(format!(
            "{network}:{container}:{}.{extension}",
            attachment.interface()
        ))
    }

    fn read_file(&self, path: &Path) -> Result<Option<Record>> {
        let bytes = match fs::read(path) {
            Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(|source| Error::Record {
                path: path.to_owned(),
                source,
            })?,
        };
        match serde_json::from_slice(&bytes) {
            Ok(record) => Ok(Some(record)),
            Err(why) => {
                let mut aside = path.as_os_str().to_owned();
                aside.push(".corrupt");
                let _ = fs::rename(path, &aside);
                eprintln!(
                    "netqos: {} cannot be read ({why}); set aside as {}",
                    path.display(),
                    Path::new(&aside).display()
                );
                Ok(None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(network: &str) -> Record {
        Record {
            attachment: Attachment::try_new(network, "c1", "eth0").unwrap(),
            netns: "/run/netns/x".into(),
            limits: Limits::default(),
            queues: Vec::new(),
        }
    }

    #[test]
    fn what_is_written_is_read_and_then_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::new(folder.path().join("attachments"));
        assert_eq!(records.all().unwrap(), []);
        let record = record("net");
        records.write(&record).unwrap();
        assert_eq!(
            records.read(&record.attachment).unwrap(),
            Some(record.clone())
        );
        let lock = records.lock(&record.attachment).unwrap();
        records.remove(&record.attachment, &lock).unwrap();
        assert_eq!(records.all().unwrap(), []);
        assert_eq!(
            fs::read_dir(folder.path().join("attachments"))
                .unwrap()
                .count(),
            0
        );
    }

    #[test]
    fn a_record_that_cannot_be_read_is_set_aside_and_stops_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::new(folder.path().to_owned());
        records.write(&record("good")).unwrap();
        fs::write(folder.path().join("bad:c:eth0.json"), b"{").unwrap();
        assert_eq!(records.all().unwrap(), [record("good")]);
        assert!(folder.path().join("bad:c:eth0.json.corrupt").exists());
        assert_eq!(records.all().unwrap(), [record("good")]);
    }
}
