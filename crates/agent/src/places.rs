//! Where the agent's own files are, below the run folder.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

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

/// The folder of notes about limits that the agent made by itself.
pub fn limits_folder(run: &Path) -> PathBuf {
    run.join("agent-limits")
}

/// The file that says by its lock that an agent runs.
pub fn lock_path(run: &Path) -> PathBuf {
    run.join("agent.lock")
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
            Err(Error::Running(path))
        }
        Err(errno) => Err(failed(errno.into())),
    }
}
