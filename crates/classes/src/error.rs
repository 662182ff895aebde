//! Why lines are not divided.

use std::io;
use std::path::PathBuf;

/// The result of everything in this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a line cannot be divided, or what divides it not be removed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Netlink.
    #[error("{doing}: {source}")]
    Netlink {
        /// What was being done.
        doing: String,
        /// The kernel's answer.
        source: netqos_netlink::Error,
    },
    /// The programs.
    #[error(transparent)]
    Bpf(#[from] netqos_bpf::Error),
    /// A file or folder.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A program of the node that a backend runs.
    #[error("{command}: {what}")]
    Command {
        /// The command line.
        command: String,
        /// What it said.
        what: String,
    },
    /// A program of the node that a backend runs is not there.
    #[error(
        "there is no {program} here, which the backend needs: install the package {package} on this node, or, \
         where the agent runs in a container, take the image that has it (docs/install.md)"
    )]
    NoProgram {
        /// The program.
        program: String,
        /// What it comes with.
        package: &'static str,
    },
    /// Somebody else's ipset has the name of one that the classes need.
    #[error(
        "there is an ipset {name} which is not netqos': it is made by {made:?}, and not by {wanted:?}; \
         remove it (ipset destroy {name})"
    )]
    ForeignSet {
        /// Its name.
        name: String,
        /// How it was made.
        made: String,
        /// How netqos' is made.
        wanted: String,
    },
    /// Somebody else's qdisc is where the classes belong.
    #[error(
        "{line} has {kind} {handle} at its root, which is not netqos' and was configured by hand; \
         remove it (tc qdisc del dev {line} root), or name other lines"
    )]
    ForeignQdisc {
        /// The link.
        line: String,
        /// The qdisc's kind.
        kind: String,
        /// Its handle.
        handle: String,
    },
    /// Calico limits what comes from a pod, by an `ingress` qdisc in the place of clsact.
    #[error(
        "Calico limits it, with its qdisc where the program would be; from kernel 6.6 on a program has a hook of its own (tcx)"
    )]
    CalicosHook,
    /// The numbers of pods and parts cannot be read or written down.
    #[error(transparent)]
    Numbers(netqos_datapath::Error),
    /// There is no such link.
    #[error("there is no link {0}")]
    NoLine(String),
    /// Several things went wrong, each of which was gone on from.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Several(Vec<Error>),
}

/// The words of ipset and iptables for a kernel without sets, a kind of set, a match or a target.
const LACKING: [&str; 4] = [
    "Kernel error received: Invalid argument",
    "Kernel error received: set type not supported",
    "missing kernel module",
    "RULE_APPEND failed (No such file or directory)",
];

impl Error {
    /// What it is about has gone meanwhile.
    pub(crate) fn is_gone(&self) -> bool {
        match self {
            Self::Netlink { source, .. } => source.is_not_found(),
            Self::Bpf(source) => source.is_gone(),
            _ => false,
        }
    }

    /// The message of a problem: it names the remedy where the kernel lacks something.
    pub fn explained(&self) -> String {
        match self.is_unsupported() {
            true => {
                format!("{self}: the kernel lacks it; `netqos check` says what, and what to do")
            }
            false => self.to_string(),
        }
    }

    /// Returns true if the kernel lacks something.
    pub(crate) fn is_unsupported(&self) -> bool {
        match self {
            Self::Netlink { source, .. } => source.is_unsupported(),
            Self::Command { what, .. } => LACKING.iter().any(|text| what.contains(text)),
            Self::Several(all) => all.iter().any(Self::is_unsupported),
            _ => false,
        }
    }

    /// Nothing, one, or several of them.
    pub(crate) fn all(mut errors: Vec<Self>) -> Result<()> {
        match (errors.pop(), errors.is_empty()) {
            (None, _) => Ok(()),
            (Some(only), true) => Err(only),
            (Some(last), false) => {
                errors.push(last);
                Err(Self::Several(errors))
            }
        }
    }
}

/// Adds what was being done.
pub(crate) trait Doing<T> {
    /// Names it.
    fn doing(self, doing: &str) -> Result<T>;
}

impl<T> Doing<T> for netqos_netlink::Result<T> {
    fn doing(self, doing: &str) -> Result<T> {
        self.map_err(|source| Error::Netlink {
            doing: doing.to_owned(),
            source,
        })
    }
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn missing_kernel_feature_is_explained_with_a_remedy() {
        let refused = |errno: Errno| Error::Netlink {
            doing: "make an ifb".to_owned(),
            source: netqos_netlink::Error::Refused {
                doing: "add link".to_owned(),
                errno: errno.raw_os_error(),
                extack: None,
            },
        };
        let (missing, exists) = (Errno::OPNOTSUPP, Errno::EXIST);
        let has_remedy = |error: &Error| error.explained().contains("`netqos check`");
        assert!(has_remedy(&refused(missing)));
        assert!(!has_remedy(&refused(exists)));
        let several = Error::Several(vec![refused(exists), refused(missing)]);
        assert!(has_remedy(&several));
    }

    #[test]
    fn command_of_kernel_that_lacks_something_names_the_remedy() {
        for (what, names_it) in [
            ("ipset v7.17: Kernel error received: Invalid argument", true),
            (
                "Warning: Extension set is not supported, missing kernel module?",
                true,
            ),
            (
                "line 2: RULE_APPEND failed (No such file or directory): rule in chain POSTROUTING",
                true,
            ),
            (
                "ipset v7.17: Kernel error received: Operation not permitted",
                false,
            ),
        ] {
            let error = Error::Command {
                command: "ipset list -name".to_owned(),
                what: what.to_owned(),
            };
            assert_eq!(
                error.explained().contains("`netqos check`"),
                names_it,
                "{what}"
            );
        }
    }
}
