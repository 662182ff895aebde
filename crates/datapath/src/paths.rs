//! Where netqos keeps what it must remember.

use std::path::{Path, PathBuf};

/// The folders of the node that netqos writes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    run: PathBuf,
    bpffs: PathBuf,
}

impl Paths {
    /// The variable of the environment that moves the run folder.
    pub const RUN_VARIABLE: &str = "NETQOS_RUN_DIR";
    /// The variable of the environment that moves the BPF file system.
    pub const BPFFS_VARIABLE: &str = "NETQOS_BPFFS";

    /// These folders: one for the records of attachments, gone with a reboot like what they
    /// describe, and a BPF file system, or where one may be mounted.
    pub fn new(run: impl Into<PathBuf>, bpffs: impl Into<PathBuf>) -> Self {
        Self {
            run: run.into(),
            bpffs: bpffs.into(),
        }
    }

    /// The folders that the environment names, else `/run/netqos` and `/sys/fs/bpf`.
    pub fn from_variables(read: impl Fn(&str) -> Option<String>) -> Self {
        let named = |variable, otherwise: &str| {
            PathBuf::from(
                read(variable)
                    .filter(|p| !p.is_empty())
                    .unwrap_or(otherwise.to_owned()),
            )
        };
        Self {
            run: named(Self::RUN_VARIABLE, "/run/netqos"),
            bpffs: named(Self::BPFFS_VARIABLE, "/sys/fs/bpf"),
        }
    }

    /// The folder of the records.
    pub fn attachments(&self) -> PathBuf {
        self.run.join("attachments")
    }

    /// The folder of what is known of the pods of attachments.
    pub fn pods(&self) -> PathBuf {
        self.run.join("pods")
    }

    /// The folder of the records of what stands at interfaces for rules.
    pub fn rules(&self) -> PathBuf {
        self.run.join("rules")
    }

    /// The file that says that ingress limits on this node need a queue in the pod, and why.
    pub fn ingress_in_pod(&self) -> PathBuf {
        self.run.join("ingress-in-pod")
    }

    /// The file that says that ingress limits at the first interface of a pod have no queue but the one in the pod, and why.
    pub fn ingress_only_in_pod(&self) -> PathBuf {
        self.run.join("ingress-only-in-pod")
    }

    /// The file that says that the kernel refused the programs.
    pub(crate) fn refusal(&self) -> PathBuf {
        self.run.join("programs-refused.json")
    }

    /// The BPF file system.
    pub fn bpffs(&self) -> &Path {
        &self.bpffs
    }

    /// The folder of everything that is forgotten at a reboot.
    pub fn run(&self) -> &Path {
        &self.run
    }
}
