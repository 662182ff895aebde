//! What can go wrong with eBPF.

use std::io;
use std::path::{Path, PathBuf};

/// The result of everything in this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why eBPF cannot be used, or not as asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A bpf(2) command failed.
    #[error("bpf {command}: {source}")]
    Command {
        /// The command, in words.
        command: &'static str,
        /// The failure.
        source: io::Error,
    },
    /// The programs could not be loaded: the kernel lacks something, or its verifier refused.
    #[error("cannot load the eBPF programs: {0}")]
    Load(String),
    /// There is no BPF file system to pin to, and none could be mounted.
    #[error("no BPF file system at {path}: {source}; mount one with `mount -t bpf bpf {path}`", path = path.display())]
    FileSystem {
        /// Where it was looked for.
        path: PathBuf,
        /// The failure.
        source: io::Error,
    },
    /// Something in the pin folder is not what this version puts there.
    #[error("{path}: {what}; remove it", path = path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The folder of pins could not be read or changed.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The failure.
        source: io::Error,
    },
    /// All limiter ids are taken.
    #[error("no free limiter: {0} are in use on this node")]
    Full(usize),
    /// The kernel has no tcx hooks.
    #[error("this kernel has no tcx hooks, which came with 6.6")]
    NoTcx,
}

impl Error {
    /// Says of a failure that it is about this path.
    pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            path: path.to_owned(),
            source,
        }
    }

    /// What it is about, an interface or a program on one, is not there any more.
    pub fn is_gone(&self) -> bool {
        matches!(self.errno(), Some(libc::ENODEV | libc::ENOENT))
    }

    /// What the system said about a command that failed.
    pub(crate) fn errno(&self) -> Option<i32> {
        match self {
            Self::Command { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }
}
