//! Where the agent's own files are, below the run folder.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use netqos_datapath::{Documents, Paths};
use rustix::fs::{FlockOperation, flock, major, minor};

use crate::{Error, Result};

/// That this process is the only agent of its run folder. It ends with the process at the latest.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// The socket on which the agent is asked.
pub fn socket_path(run: &Path) -> PathBuf {
    run.join("agent.sock")
}

/// The socket on which `netqos-multinet` asks for a pod's networks.
pub fn multinet_socket_path(run: &Path) -> PathBuf {
    run.join("multinet.sock")
}

/// The directory of files about the networks that pods select, for `netqos-multinet`.
pub fn multinet_pods_directory(run: &Path) -> PathBuf {
    run.join(netqos_api::multinet::PODS_DIRECTORY)
}

/// The folder of notes about limits that the agent made by itself.
pub fn limits_folder(run: &Path) -> PathBuf {
    run.join("agent-limits")
}

/// The file that says by its lock that an agent runs.
pub fn lock_path(run: &Path) -> PathBuf {
    run.join("agent.lock")
}

/// The directory of what outlives a reboot, on a node.
pub const STATE: &str = "/var/lib/netqos";

/// The directory of the records of `netqos-multinet`, below that.
pub const MULTINET_RECORDS: &str = "multinet/pods";

/// The directory of a cluster's objects as they were last watched, below that.
pub fn objects_directory(state: &Path) -> PathBuf {
    state.join("objects")
}

/// True when rules are in force on the node, or were when the last agent ended: there is a record of
/// each interface that has some. One that cannot be looked for may be there.
pub fn has_rules(paths: &Paths) -> bool {
    let names = Documents::new(paths.rules()).names();
    !names.is_ok_and(|names| names.is_empty())
}

/// Becomes the only agent of this run folder.
///
/// # Errors
/// [`Error::Running`] when another is.
pub fn agent_lock(run: &Path) -> Result<Lock> {
    let path = lock_path(run);
    let failed = |source| Error::File {
        path: path.clone(),
        source,
    };
    fs::create_dir_all(run).map_err(failed)?;
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(&path)
        .map_err(failed)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Lock { _file: file }),
        Err(errno) if io::Error::from(errno).kind() == io::ErrorKind::WouldBlock => {
            let holder = holder(&file);
            Err(Error::Running { lock: path, holder })
        }
        Err(errno) => Err(failed(errno.into())),
    }
}

/// The process that holds the lock of this file, by what the kernel says of all locks.
fn holder(file: &File) -> Option<u32> {
    let metadata = file.metadata().ok()?;
    let device = metadata.dev();
    let (major, minor, inode) = (major(device), minor(device), metadata.ino());
    let name = format!("{major:02x}:{minor:02x}:{inode}");
    let locks = fs::read_to_string("/proc/locks").ok()?;
    locks.lines().find_map(|line| {
        // `1: FLOCK  ADVISORY  WRITE 42 00:1a:7 0 EOF`; who waits for it has an arrow before.
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [_, "FLOCK", _, _, process, of, ..] if of == name => process.parse().ok(),
            _ => None,
        }
    })
}
