//! What can go wrong with a lab.

use std::io;
use std::path::PathBuf;

use netqos_cni::kubelet::KubeletError;

use crate::manifest::ManifestError;

/// Why there is no lab, or not all of it could be taken away.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// What is to be built can't be understood.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// Who runs it may not make network namespaces.
    #[error("the lab makes network namespaces, which needs root: run it with sudo")]
    NotRoot,
    /// A plugin of the network has no executable.
    #[error(
        "network {network:?} needs the CNI plugin {plugin:?}, which is in none of {}: install it \
         (Debian: apt-get install containernetworking-plugins), or name its folder in \
         NETQOS_CNI_PATH",
        listed(folders)
    )]
    NoPlugin {
        /// The network's name.
        network: String,
        /// The plugin's `type`.
        plugin: String,
        /// Where it was looked for.
        folders: Vec<PathBuf>,
    },
    /// A pod that can't be joined to the network. A bad annotation is named with its value.
    #[error("pod {pod}: {source}")]
    Pod {
        /// The pod's name.
        pod: String,
        /// Why.
        source: Box<KubeletError>,
    },
    /// A pod whose network gave it no address.
    #[error("pod {pod}: network {network:?} gave it no address: add an \"ipam\" to its plugin")]
    NoAddress {
        /// The pod's name.
        pod: String,
        /// The network's name.
        network: String,
    },
    /// A measurement with the node, on a network where the node has no address.
    #[error(
        "the node has no address on network {network:?} that pods could reach: let its plugin be \
         their gateway (\"isGateway\": true)"
    )]
    NoGateway {
        /// The network's name.
        network: String,
    },
    /// A place without an address of the family or on the interface that was asked for.
    #[error("{place} has no {what} address: give its network one of that family")]
    NoSuchAddress {
        /// The place.
        place: String,
        /// Which address.
        what: String,
    },
    /// There is no plugin for pods that select networks.
    #[error(
        "pods that select networks need the CNI plugin netqos-multinet, which is in none of {}: \
         build it (make build), or name its folder in NETQOS_CNI_PATH",
        listed(.0)
    )]
    NoMultinet(Vec<PathBuf>),
    /// There are NetworkQoS objects, or pods that select networks, and no agent.
    #[error(
        "NetworkQoS objects and pods that select networks need netqos-agent, which is not at {}: \
         build it (make build), or name it with --agent or in NETQOS_AGENT",
        .0.display()
    )]
    NoAgent(PathBuf),
    /// An agent that does not work.
    #[error("the agent {why}; the end of its log:\n{log}")]
    Agent {
        /// What is wrong with it.
        why: String,
        /// What it said last.
        log: String,
    },
    /// A program of a container that can't be started.
    #[error("pod {pod}: container {container}: cannot start {program}: {source}")]
    Command {
        /// The pod's name.
        pod: String,
        /// The container's name.
        container: String,
        /// What was to be started.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// The kernel or the file system said no.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A network namespace, or a link in one, that can't be made or changed.
    #[error(transparent)]
    Netlink(#[from] netqos_netlink::Error),
    /// A lab that is not there.
    #[error("there is no lab {0:?}; `netqos lab list` shows those that are there")]
    NoSuchLab(String),
    /// No run was named, and there are several.
    #[error("there are several labs: name one of {}, or use --all", .0.join(", "))]
    WhichLab(Vec<String>),
    /// A lab whose process is still at work.
    #[error("lab {run} is being run by process {pid}: end that with Ctrl-C")]
    InUse {
        /// The lab.
        run: String,
        /// The process.
        pid: i32,
    },
    /// What was left over when a lab was taken away. Its state is kept, so that it can be tried
    /// again.
    #[error("not all of lab {run} could be taken away: {}", .problems.join("; "))]
    LeftOver {
        /// The lab.
        run: String,
        /// What could not be done, and why.
        problems: Vec<String>,
    },
    /// A thread panicked: a defect of the lab.
    #[error("the lab itself failed while it was to {0}; please report it")]
    Panicked(&'static str),
}

/// Whose turn it is after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// What was to be built is wrong.
    Input,
    /// The machine lacks something.
    Environment,
}

impl LabError {
    /// Wraps the kernel's error with what was tried on what.
    pub(crate) fn io(
        what: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { what, path, source }
    }

    /// Whose turn it is.
    pub fn blame(&self) -> Blame {
        match self {
            Self::Manifest(_)
            | Self::NoAddress { .. }
            | Self::NoGateway { .. }
            | Self::NoSuchAddress { .. }
            | Self::Command { .. }
            | Self::NoSuchLab(_)
            | Self::WhichLab(_) => Blame::Input,
            Self::Pod { source, .. } => match **source {
                KubeletError::Runtime(_) => Blame::Environment,
                _ => Blame::Input,
            },
            Self::NotRoot
            | Self::NoPlugin { .. }
            | Self::NoMultinet(_)
            | Self::NoAgent(_)
            | Self::Agent { .. }
            | Self::Io { .. }
            | Self::Netlink(_)
            | Self::InUse { .. }
            | Self::LeftOver { .. }
            | Self::Panicked(_) => Blame::Environment,
        }
    }
}

fn listed(folders: &[PathBuf]) -> String {
    let folders: Vec<_> = folders.iter().map(|f| f.display().to_string()).collect();
    folders.join(", ")
}
