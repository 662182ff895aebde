//! What can go wrong before the agent runs, or while it is asked.

use std::io;
use std::path::PathBuf;

/// The result of what may fail.
pub type Result<T> = std::result::Result<T, Error>;

/// Why not.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The folder of manifests cannot be read.
    #[error("folder of manifests {path}: {source}", path = path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The failure.
        source: io::Error,
    },
    /// What stands there is no folder.
    #[error("{path} is no folder: name the folder that the manifests are in", path = .0.display())]
    NotAFolder(PathBuf),
    /// There is no way to an API server.
    #[cfg(feature = "daemon")]
    #[error(transparent)]
    Connect(#[from] netqos_cluster::ConnectError),
    /// A thread or its runtime cannot be started.
    #[error("start a thread: {0}")]
    Thread(#[source] io::Error),
    /// Another agent runs on the same run folder.
    #[error(
        "an agent is running already on this node: {who} holds {lock}; stop that one first, or leave \
         it at that: a node has one",
        who = .holder.map_or("a process that is not to be seen from here".to_owned(), |it| format!("process {it}")),
        lock = .lock.display()
    )]
    Running {
        /// The file that it holds.
        lock: PathBuf,
        /// Its number, as far as it is in this PID namespace.
        holder: Option<u32>,
    },
    /// A file that the agent needs cannot be made.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The failure.
        source: io::Error,
    },
    /// Changes of folders cannot be heard of.
    #[error("inotify: {0}")]
    Watch(#[source] io::Error),
    /// An address that cannot be listened on.
    #[error("listen on {address}: {source}")]
    Listen {
        /// The address.
        address: String,
        /// The failure.
        source: io::Error,
    },
    /// No agent answers.
    #[error(
        "no agent answers at {path} ({source}): start netqos-agent, or set NETQOS_RUN_DIR to the folder that it runs in",
        path = path.display()
    )]
    NoAgent {
        /// Its socket.
        path: PathBuf,
        /// The failure.
        source: io::Error,
    },
    /// The agent's answer is none.
    #[error("the agent answered with {0}")]
    Answer(String),
}

impl Error {
    /// True when there is no agent to be asked.
    pub fn is_no_agent(&self) -> bool {
        matches!(self, Self::NoAgent { .. })
    }
}
