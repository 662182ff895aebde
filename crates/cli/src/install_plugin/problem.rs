//! The reasons for which a plugin is not installed or removed.

use std::io;
use std::path::PathBuf;

use netqos_agent::multinet::ListError;
use netqos_cni::runtime::RuntimeError;

use super::hand_over::HandedOver;

/// The reason that the command failed.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// A file or a directory cannot be read or changed.
    #[error("{}: {source}{}", path.display(), remedy(source))]
    File { path: PathBuf, source: io::Error },
    /// The file is something else.
    #[error("{} is not the plugin {} of netqos: name it with --from", path.display(), plugin)]
    NotOurs { path: PathBuf, plugin: &'static str },
    /// Attachments of pods that are gone cannot be released.
    #[error("cannot release what gone pods were attached to: {0}")]
    NotReleased(Box<RuntimeError>),
    /// Another list comes first.
    #[error(
        "{} is written, but the runtime reads list {first:?} first, and does not call netqos-multinet: give that file a \
         name behind 00-netqos.conflist",
        path.display()
    )]
    NotFirst { path: PathBuf, first: String },
    /// The default network would be that of another meta plugin.
    #[error(
        "{} is not written: netqos-multinet would take list {list:?} as the default network, which calls {plugin}, and no \
         pod could start; remove that list first, or write this one beside it by --list-name and --default-network",
        path.display()
    )]
    DefaultIsMeta {
        path: PathBuf,
        list: String,
        plugin: String,
    },
    /// The list would come before that of another meta plugin.
    #[error(
        "{} is not written: it would come before {}, which calls {plugin}, or before the list that {plugin} takes for the \
         default network; give it a name behind both by --list-name",
        path.display(),
        other.display()
    )]
    BeforeMeta {
        path: PathBuf,
        other: PathBuf,
        plugin: String,
    },
    /// Another meta plugin would call the plugin.
    #[error(
        "{} is not written: {} leads to netqos-multinet: {why}, and pods would be attached to their networks twice; name the \
         list of the default network there",
        path.display(),
        other.display()
    )]
    Twice {
        path: PathBuf,
        other: PathBuf,
        why: String,
    },
    /// The lists of the runtime cannot be read.
    #[error("cannot read the lists of the runtime: {0}; make that directory readable")]
    Lists(Box<RuntimeError>),
    /// Another list calls the plugin.
    #[error(
        "{} calls netqos-multinet already; nothing changed; remove that list first, by --remove and --list-name if netqos \
         has written it",
        .0.display()
    )]
    OtherList(PathBuf),
    /// The list of that name is another's.
    #[error("{0}")]
    ForeignList(ListError),
    /// The list that the runtime reads next is broken.
    #[error(
        "cannot remove the list: the runtime would read next what cannot be read: {0}; nothing changed; fix or remove \
         that file, and try again"
    )]
    NextList(Box<RuntimeError>),
    /// The list that the runtime reads next would call the plugin.
    #[error(
        "cannot remove the list: {} leads back to it: {why}; nothing changed; name the list of the default network there, \
         and try again",
        path.display()
    )]
    LeadsBack { path: PathBuf, why: String },
    /// A directory is missing, perhaps only here.
    #[error(
        "cannot see {}, the directory of {content}; nothing changed; run this on the node or mount that directory, and if \
         the node has none, create it",
        path.display()
    )]
    NotSeen {
        path: PathBuf,
        content: &'static str,
    },
    /// Records cannot be listed.
    #[error(transparent)]
    Records(#[from] netqos_datapath::Error),
    /// A result of the runtime cannot be written.
    #[error("cannot hand over all pods to Multus: {0}; run this again on the node")]
    ResultNotHandedOver(Box<RuntimeError>),
    /// Pods stay with netqos although Multus follows.
    #[error(
        "{} and its records stay: Multus cannot release {kept}; remove the cause or delete these pods, and run this again \
         on the node",
        executable.display()
    )]
    NotHandedOver {
        executable: PathBuf,
        kept: HandedOver,
    },
}

impl From<ListError> for Problem {
    fn from(error: ListError) -> Self {
        match error {
            ListError::File { path, source } => Self::File { path, source },
            foreign @ ListError::Foreign(_) => Self::ForeignList(foreign),
        }
    }
}

impl Problem {
    /// Returns true if a list of another program is the reason.
    pub(super) fn is_foreign_list(&self) -> bool {
        matches!(
            self,
            Self::NotFirst { .. }
                | Self::ForeignList(_)
                | Self::DefaultIsMeta { .. }
                | Self::BeforeMeta { .. }
                | Self::OtherList(_)
                | Self::Twice { .. }
        )
    }
}

/// The remedy of an error.
fn remedy(why: &io::Error) -> &'static str {
    match why.kind() {
        io::ErrorKind::PermissionDenied => {
            "; run netqos as root with the capabilities DAC_OVERRIDE and FOWNER, and use a file system that \
             root may write to (not NFS with root_squash)"
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            "; set --to (chart value cniPlugin.directory) to a writable directory, and add the directory to \
             the plugin path of the container runtime"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; nothing changed; free disk space and try again"
        }
        _ => "",
    }
}
