//! What the runtime says in the environment.

use std::fmt;
use std::path::PathBuf;

use super::CniArgs;
use crate::CniError;

/// What a plugin is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// Join a container to a network.
    Add,
    /// Undo ADD.
    Del,
    /// Say whether all is as ADD left it.
    Check,
    /// Remove what belongs to no living attachment.
    Gc,
    /// Say whether ADD could be served now.
    Status,
    /// Say which versions are spoken.
    Version,
}

impl Command {
    /// All of them.
    const ALL: [Self; 6] = [
        Self::Add,
        Self::Del,
        Self::Check,
        Self::Gc,
        Self::Status,
        Self::Version,
    ];

    /// As `CNI_COMMAND` says it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Add => "ADD",
            Self::Del => "DEL",
            Self::Check => "CHECK",
            Self::Gc => "GC",
            Self::Status => "STATUS",
            Self::Version => "VERSION",
        }
    }

    /// The command of this name.
    pub(super) fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == text)
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The variables, as they are: nothing but their presence has been checked.
#[derive(Debug)]
pub(super) struct Variables {
    /// `CNI_COMMAND`.
    pub(super) command: String,
    /// `CNI_CONTAINERID`.
    pub(super) container_id: String,
    /// `CNI_NETNS`; empty when DEL comes after the namespace has gone.
    pub(super) netns: String,
    /// `CNI_IFNAME`.
    pub(super) ifname: String,
    /// `CNI_ARGS`.
    pub(super) args: CniArgs,
    /// `CNI_PATH`.
    pub(super) path: Vec<PathBuf>,
    /// `CNI_NETNS_OVERRIDE`: the runtime knows that the namespace is the plugin's own.
    pub(super) netns_override: bool,
}

impl Variables {
    /// Reads them. Which are required depends on the command; a variable that is empty is missing.
    pub(super) fn read(env: &impl Fn(&str) -> Option<String>) -> Result<Self, CniError> {
        let get = |name: &str| env(name).unwrap_or_default();
        let command = get("CNI_COMMAND");
        let required: &[&str] = match Command::parse(&command) {
            Some(Command::Add | Command::Check) => {
                &["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH"]
            }
            Some(Command::Del) => &["CNI_CONTAINERID", "CNI_IFNAME", "CNI_PATH"],
            Some(Command::Gc | Command::Status) => &["CNI_PATH"],
            Some(Command::Version) | None => &[],
        };
        let missing: Vec<&str> = ["CNI_COMMAND"]
            .iter()
            .chain(required)
            .copied()
            .filter(|name| get(name).is_empty())
            .collect();
        if !missing.is_empty() {
            return Err(CniError::environment(format!(
                "required env variables [{}] missing",
                missing.join(",")
            )));
        }
        let netns_override = get("CNI_NETNS_OVERRIDE");
        Ok(Self {
            command,
            container_id: get("CNI_CONTAINERID"),
            netns: get("CNI_NETNS"),
            ifname: get("CNI_IFNAME"),
            args: CniArgs::new(get("CNI_ARGS")),
            path: std::env::split_paths(&get("CNI_PATH"))
                .filter(|dir| !dir.as_os_str().is_empty())
                .collect(),
            netns_override: netns_override == "1" || netns_override.eq_ignore_ascii_case("true"),
        })
    }
}
