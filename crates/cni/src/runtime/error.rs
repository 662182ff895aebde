//! What can go wrong for a runtime.

use std::io;
use std::path::PathBuf;

use crate::plugin::Command;
use crate::{CniError, CniVersion, ErrorCode, ResultError};

/// The codes by which plugins refuse a version, an environment, a field or a configuration (CNI 1.1, section 5).
const REFUSALS: [u32; 5] = [1, 2, 4, 6, 7];

/// Those of them that count for any plugin, if ADD and DEL have the same answer.
const REFUSALS_OF_ANY: [u32; 3] = [2, 4, 7];

/// The plugins of containernetworking whose answers are known: a thin one may answer the same once its daemon has given an
/// address.
pub(super) const KNOWN_PLUGINS: [&str; 9] = [
    "bridge",
    "ptp",
    "macvlan",
    "ipvlan",
    "vlan",
    "host-device",
    "tuning",
    "portmap",
    "bandwidth",
];

/// Those of IPAM, whose answers the ones above pass on.
pub(super) const KNOWN_IPAM: [&str; 3] = ["host-local", "static", "dhcp"];

/// An answer by which a plugin says that it does nothing, by what it proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    /// The plugin refuses its configuration. By one that it refuses, it has never made anything.
    Configuration,
    /// DEL finds no trace of an ADD, or lacks a plugin that an ADD needs too. If ADD was refused, nothing was made.
    NothingToUndo,
    /// Something of the node is missing. Only an ADD with the same answer has made nothing.
    Missing,
}

/// The texts of such answers of known plugins with the code 999, which plugins in Go give to all their errors. The first that
/// fits counts.
/// The test `real_plugins_that_refuse_have_made_nothing` holds them to the plugins of containernetworking.
const REFUSAL_TEXTS: [(&str, Refusal); 16] = [
    ("json: cannot unmarshal", Refusal::Configuration),
    ("invalid VLAN ID", Refusal::Configuration),
    ("field is required", Refusal::Configuration),
    ("specify either \"device\"", Refusal::Configuration),
    (
        "cannot set hairpin mode and promiscuous mode",
        Refusal::Configuration,
    ),
    ("unknown ipvlan mode", Refusal::Configuration),
    ("unknown macvlan mode", Refusal::Configuration),
    ("invalid IP address: ", Refusal::Configuration),
    ("invalid CIDR address: ", Refusal::Configuration),
    ("invalid range set ", Refusal::Configuration),
    ("no IP ranges specified", Refusal::Configuration),
    (
        "the 'address' field is expected to be in CIDR",
        Refusal::Configuration,
    ),
    // Of libcni, where a plugin delegates to one of IPAM.
    ("failed to find plugin \"", Refusal::NothingToUndo),
    // Of host-device, whose device is not in the pod.
    ("failed to find \"", Refusal::NothingToUndo),
    ("not found", Refusal::Missing),
    ("no such file or directory", Refusal::Missing),
];

/// Why a list can't be loaded, or an operation on it failed.
///
/// Texts contain those of libcni, with the file or plugin before them where libcni leaves it out.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// A file or folder of the configuration can't be read.
    #[error("error reading {}: {error}", path.display())]
    Read {
        /// Which one.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A network configuration list that is not one.
    #[error("error parsing configuration list: {0}")]
    List(String),
    /// A plugin's configuration that is not one.
    #[error("error parsing configuration: {0}")]
    Plugin(String),
    /// A plugin's configuration inside a list that is not one.
    #[error("failed to parse plugin config {index}: error parsing configuration: {problem}")]
    PluginInList {
        /// Its place in the list, from 0.
        index: usize,
        /// What is wrong.
        problem: String,
    },
    /// A list without plugins, neither inside nor in its folder.
    #[error("no plugin configs found")]
    NoPlugins,
    /// What is wrong in a file.
    #[error("{}: {error}", path.display())]
    InFile {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: Box<RuntimeError>,
    },
    /// A folder without any network configuration.
    #[error("no net configurations found in {}", dir.display())]
    NoConfigurations {
        /// The folder.
        dir: PathBuf,
    },
    /// A folder without a network of this name.
    #[error("no net configuration with name \"{name}\" in {}", dir.display())]
    NetworkNotFound {
        /// The network's name.
        name: String,
        /// The folder.
        dir: PathBuf,
    },
    /// A container id, network name or interface name that CNI does not allow.
    #[error(transparent)]
    Request(CniError),
    /// A plugin's `type` that can't be the name of an executable.
    #[error("invalid plugin name: {0:?}")]
    PluginName(String),
    /// A plugin whose executable is in none of the folders.
    #[error("failed to find plugin {kind:?} in path [{}]", joined(dirs.iter().map(|dir| dir.display()), " "))]
    PluginNotFound {
        /// The plugin's `type`.
        kind: String,
        /// Where it was looked for.
        dirs: Vec<PathBuf>,
    },
    /// An executable that can't be started.
    #[error("cannot execute plugin {}: {error}", path.display())]
    Execute {
        /// The executable.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A plugin said no, or failed without saying so.
    #[error("plugin type={plugin:?} failed ({}): {error}", operation(*command))]
    Failed {
        /// The plugin's `type`.
        plugin: String,
        /// What it was asked.
        command: Command,
        /// What it said. Code 0 when it did not say it in CNI's form.
        error: CniError,
        /// It is a plugin of containernetworking whose answers are known, as are those of its plugin of IPAM.
        is_known: bool,
    },
    /// A plugin printed what is not a result.
    #[error("plugin type={plugin:?} failed (add): cannot read its result: {problem}")]
    Result {
        /// The plugin's `type`.
        plugin: String,
        /// What is wrong with it.
        problem: ResultError,
    },
    /// A plugin printed what is not an answer to VERSION.
    #[error("plugin type={plugin:?} failed (version): decoding version info: {problem}")]
    VersionInfo {
        /// The plugin's `type`.
        plugin: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A plugin does not speak the list's version.
    #[error("plugin {plugin} does not support config version \"{version}\"")]
    VersionNotSupported {
        /// The plugin's `type`.
        plugin: String,
        /// The list's version.
        version: CniVersion,
    },
    /// A plugin's configuration can't be written as JSON.
    #[error("cannot write the configuration of plugin {plugin:?}: {problem}")]
    Encode {
        /// The plugin's `type`.
        plugin: String,
        /// Why.
        problem: serde_json::Error,
    },
    /// A result can't be remembered.
    #[error("failed to set network {network:?} cached result: {}: {error}", path.display())]
    Cache {
        /// The network's name.
        network: String,
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// CHECK of a list before 0.4.0.
    #[error("configuration version \"{0}\" does not support the CHECK command")]
    CheckNotSupported(CniVersion),
    /// ADD failed, and undoing it too.
    #[error("{error}; undoing it failed, too: {}", joined(undo, "; "))]
    AddAndUndo {
        /// Why ADD failed.
        error: Box<RuntimeError>,
        /// What could not be undone.
        undo: Vec<RuntimeError>,
        /// The index of the plugin that failed.
        failed: usize,
        /// The number of the first plugins of the list that may have left something.
        begun: usize,
    },
    /// DEL of an attachment that is not alive failed, in GC.
    #[error("failed to delete stale attachment {container_id} {ifname}: {error}")]
    StaleAttachment {
        /// The container's id.
        container_id: String,
        /// The interface's name inside the container.
        ifname: String,
        /// Why.
        error: Box<RuntimeError>,
    },
    /// All errors of a DEL or a GC, of which there are several.
    #[error("{}", joined(.0, "; "))]
    Several(Vec<RuntimeError>),
}

impl RuntimeError {
    /// What a plugin said, when that is what went wrong.
    pub fn plugin_error(&self) -> Option<&CniError> {
        match self {
            Self::Failed { error, .. } | Self::Request(error) => Some(error),
            Self::AddAndUndo { error, .. }
            | Self::StaleAttachment { error, .. }
            | Self::InFile { error, .. } => error.plugin_error(),
            Self::Several(errors) => errors.iter().find_map(Self::plugin_error),
            _ => None,
        }
    }

    /// Returns true if a failed ADD may have left something: it was not undone.
    pub fn may_have_left_something(&self) -> bool {
        matches!(self, Self::AddAndUndo { .. })
    }

    /// Returns these errors as one, if there are any.
    pub(super) fn of_all(mut errors: Vec<Self>) -> Result<(), Self> {
        match errors.len() {
            0 => Ok(()),
            1 => Err(errors.remove(0)),
            _ => Err(Self::Several(errors)),
        }
    }

    /// Returns true if the plugin was executed.
    pub(super) fn was_executed(&self) -> bool {
        matches!(self, Self::Failed { .. } | Self::Result { .. })
    }

    /// Returns true if a plugin whose DEL failed with `of_del` has made nothing by the ADD that failed with this error. A
    /// plugin that fails later, for instance by a timeout of its daemon, may have done anything.
    pub(super) fn has_made_nothing(&self, of_del: &Self) -> bool {
        if let Self::Failed {
            error,
            is_known: false,
            ..
        } = self
        {
            let is_refusal = REFUSALS_OF_ANY.contains(&error.code.0);
            return is_refusal && of_del.plugin_error() == Some(error);
        }
        match (self.refusal(), of_del.refusal()) {
            (Some(_), Some(Refusal::Configuration | Refusal::NothingToUndo))
            | (Some(Refusal::Configuration), Some(Refusal::Missing)) => true,
            (Some(_), Some(Refusal::Missing)) => self.plugin_error() == of_del.plugin_error(),
            _ => false,
        }
    }

    /// Returns true if all plugins that failed are known and refuse their configuration: an ADD by it would have made nothing.
    pub fn refuses_configuration(&self) -> bool {
        match self {
            Self::Several(errors) => errors.iter().all(Self::refuses_configuration),
            error => error.refusal() == Some(Refusal::Configuration),
        }
    }

    /// Returns true if all plugins that failed are missing, or are known and refuse to do anything.
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Several(errors) => errors.iter().all(Self::is_refusal),
            Self::PluginNotFound { .. } => true,
            error => error.refusal().is_some(),
        }
    }

    fn refusal(&self) -> Option<Refusal> {
        let Self::Failed {
            error,
            is_known: true,
            ..
        } = self
        else {
            return None;
        };
        if REFUSALS.contains(&error.code.0) {
            return Some(Refusal::Configuration);
        }
        let says = |text| error.msg.contains(text) || error.details.contains(text);
        let mut texts = REFUSAL_TEXTS.iter();
        let row = texts.find(|(text, _)| error.code == ErrorCode::INTERNAL && says(text));
        row.map(|(_, refusal)| *refusal)
    }

    pub(super) fn in_file(self, path: impl Into<PathBuf>) -> Self {
        Self::InFile {
            path: path.into(),
            error: Box::new(self),
        }
    }
}

/// What came of executing a plugin, before it is known which one of a list it was.
#[derive(Debug)]
pub(super) enum InvocationError {
    /// It was never started.
    Execute { path: PathBuf, error: io::Error },
    /// It ran and failed.
    Failed(CniError),
}

impl InvocationError {
    pub(super) fn of_kind(self, kind: &str, command: Command, is_known: bool) -> RuntimeError {
        match self {
            Self::Execute { path, error } => RuntimeError::Execute { path, error },
            Self::Failed(error) => RuntimeError::Failed {
                plugin: kind.to_owned(),
                command,
                error,
                is_known,
            },
        }
    }
}

/// As libcni names the operation.
const fn operation(command: Command) -> &'static str {
    match command {
        Command::Add => "add",
        Command::Del => "delete",
        Command::Check => "check",
        Command::Gc => "gc",
        Command::Status => "status",
        Command::Version => "version",
    }
}

/// The parts with a text between them.
fn joined<T: ToString>(parts: impl IntoIterator<Item = T>, between: &str) -> String {
    let parts: Vec<_> = parts.into_iter().map(|part| part.to_string()).collect();
    parts.join(between)
}
