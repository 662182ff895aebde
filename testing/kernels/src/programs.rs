//! The executables and eBPF programs that a result is of.

use std::fs;
use std::process::Command;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::image::{files_below, shorten};
use crate::kernel::run;
use crate::repository;

/// The sources of the eBPF programs.
const SOURCES: &str = "crates/bpf/bpf";

/// The executables and eBPF programs that a cell has tested.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Programs {
    /// The commit of the executables: `626426f492af`, or `626426f492af.dirty`.
    pub commit: String,
    /// A digest of the sources of the eBPF programs in them.
    pub digest: String,
}

impl Programs {
    /// Those of `target/dist`, which `make test-kernels` has built from this tree.
    ///
    /// # Errors
    /// Returns an error if the agent is missing or names no commit.
    pub fn built() -> anyhow::Result<Self> {
        let agent = repository().join("target/dist/netqos-agent");
        let version = run(Command::new(agent).arg("--version"))?;
        let commit = commit(&version).with_context(|| format!("no commit in {version:?}"))?;
        Ok(Self {
            commit: commit.to_owned(),
            digest: digest()?,
        })
    }
}

/// A digest of the sources of this tree's eBPF programs.
///
/// # Errors
/// Returns an error if they cannot be read.
pub fn digest() -> anyhow::Result<String> {
    let directory = repository().join(SOURCES);
    let mut digest = Sha256::new();
    for file in files_below(&directory)? {
        let name = file.strip_prefix(&directory)?.as_os_str();
        let text = fs::read(&file).with_context(|| format!("read {}", file.display()))?;
        for part in [name.as_encoded_bytes(), &text] {
            // The length keeps parts apart.
            digest.update(part.len().to_le_bytes());
            digest.update(part);
        }
    }
    Ok(shorten(digest))
}

/// The commit of a version: `626426f492af` of `netqos-agent 0.1.0+626426f492af`.
fn commit(version: &str) -> Option<&str> {
    let (_release, commit) = version.trim().split_once('+')?;
    Some(commit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commit_is_the_build_of_a_version() {
        let version = "netqos-agent 0.1.0+626426f492af.dirty\n";
        assert_eq!(commit(version), Some("626426f492af.dirty"));
        assert_eq!(commit("netqos-agent 0.1.0\n"), None);
    }
}
