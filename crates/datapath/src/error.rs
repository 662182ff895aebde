//! Why a limit is not in force.

use std::io;
use std::path::PathBuf;

use netqos_core::{Direction, IdentityError};
use rustix::io::Errno;

use crate::Feature;

/// The result of everything in this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a limit cannot be put in force, taken away, or found in force.
///
/// Where the well-known bandwidth plugin has a text for the case, the text is that.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The pod's network namespace cannot be entered.
    #[error("failed to open netns {path:?}: {source}")]
    OpenNamespace {
        /// The file that names it.
        path: String,
        /// The failure.
        source: netqos_netlink::Error,
    },
    /// What is said to be a pod's network namespace is the one that this process is in.
    #[error("{0} is the network namespace of the node itself, in which nothing is limited")]
    NodesNamespace(String),
    /// The pod has no such interface.
    #[error("container interface {name} not found: {source}")]
    NoPodInterface {
        /// The interface.
        name: String,
        /// The kernel's answer.
        source: netqos_netlink::Error,
    },
    /// The pod has moved its end of the interface into another namespace.
    #[error(
        "container interface {name} is not in the pod's namespace any more: the pod has moved it; what is at {host}, its end on the node, stays in force"
    )]
    Moved {
        /// The interface.
        name: String,
        /// The host's end.
        host: String,
    },
    /// The pod has given the interface's name to a link of its own, and several lead out of it.
    #[error(
        "container interface {name} is not known: the link of that name does not lead out of the pod, and several do: {ways:?}"
    )]
    Ambiguous {
        /// The interface.
        name: String,
        /// The links that lead out of the pod.
        ways: Vec<String>,
    },
    /// The pod has no interface that is known to be its first.
    #[error(
        "the pod has no interface eth0, and of others that are up there is not exactly one: {0:?}"
    )]
    NoFirstInterface(Vec<String>),
    /// The loopback interface, which leads nowhere and is nobody's to limit.
    #[error("container interface {0} is the loopback interface, which has no limit")]
    Loopback(String),
    /// The pod's veth has no other end.
    #[error("container interface {0} has no veth peer")]
    NoPeer(String),
    /// The other end of the pod's veth is not in the namespace of the caller.
    #[error("veth peer with index {0} is not in host ns")]
    PeerElsewhere(u32),
    /// The result of the plugins before does not name the host's end of the veth.
    #[error("no veth peer of container interface found in host ns")]
    PeerNotListed,
    /// Calico limits what comes from the pod, by an `ingress` qdisc in the place of clsact.
    #[error(
        "Calico limits what comes from the pod at {0}, with its qdisc where the program would be; from kernel 6.6 on a program has a \
         hook of its own (tcx)"
    )]
    CalicosHook(String),
    /// Somebody else's root qdisc is where the limit belongs.
    #[error(
        "create qdisc: file exists: {link} has {kind} {handle} at its root, which is not netqos'; remove it, or leave the pod without a limit"
    )]
    ForeignQdisc {
        /// The link.
        link: String,
        /// The qdisc's kind.
        kind: String,
        /// Its handle.
        handle: String,
    },
    /// All numbers by which the program of rules knows endpoints are taken.
    #[cfg(feature = "rules")]
    #[error("no free number for an endpoint of rules: {0} are in use on this node")]
    NoEndpointNumber(u64),
    /// The device name that this attachment needs belongs to another one.
    #[error("adding link: file exists: {0} belongs to another attachment")]
    ForeignIfb(String),
    /// Netlink.
    #[error("{doing}: {source}")]
    Netlink {
        /// What was being done, in the original's words.
        doing: &'static str,
        /// The kernel's answer.
        source: netqos_netlink::Error,
    },
    /// eBPF, where it was asked for by name and cannot be had.
    #[error(transparent)]
    Bpf(#[from] netqos_bpf::Error),
    /// clsact was asked for, but the older `ingress` qdisc has its place.
    #[error("{0} has an ingress qdisc of somebody else's, beside which there can be no clsact")]
    NoClsact(String),
    /// A record or its folder cannot be read or written.
    #[error("{path}: {source}", path = path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// The failure.
        source: io::Error,
    },
    /// What was found in the kernel or on disk is not an attachment.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// CHECK: the qdisc is missing or another.
    #[error("Failed to find qdisc")]
    QdiscMissing,
    /// CHECK: the rate differs.
    #[error("Rate doesn't match")]
    RateDiffers,
    /// CHECK: the queue's limit differs.
    #[error("Limit doesn't match")]
    LimitDiffers,
    /// CHECK: the bucket differs.
    #[error("Buffer doesn't match")]
    BufferDiffers,
    /// CHECK: the ifb is gone.
    #[error("get ifb device: {0}")]
    IfbMissing(String),
    /// CHECK: something else is missing or changed.
    #[error("{direction} of {link}: {what}")]
    Changed {
        /// Which limit.
        direction: Direction,
        /// On which link.
        link: String,
        /// What is wrong.
        what: String,
    },
    /// The kernel lacks what there is no limit without.
    #[error("this kernel lacks {feature} ({why}): {}", feature.remedy())]
    Lacking {
        /// What it lacks.
        feature: Feature,
        /// Its own words.
        why: String,
    },
    /// Several things went wrong, each of which was gone on from.
    #[error("{}", list(.0))]
    Several(Vec<Error>),
}

impl Error {
    /// The kernel lacks what is needed.
    pub fn is_unsupported(&self) -> bool {
        match self {
            Self::Netlink { source, .. } => source.is_unsupported(),
            Self::Several(all) => all.iter().any(Self::is_unsupported),
            _ => false,
        }
    }

    /// Returns true if the pod's network namespace cannot be entered, or its interface does not exist, as while a pod is
    /// removed.
    pub fn is_unreachable(&self) -> bool {
        let no_device = Some(Errno::NODEV.raw_os_error());
        match self {
            Self::OpenNamespace { .. } | Self::NodesNamespace(_) | Self::NoPodInterface { .. } => {
                true
            }
            Self::Netlink { source, .. } => source.errno() == no_device,
            Self::Bpf(netqos_bpf::Error::Command { source, .. }) => {
                source.raw_os_error() == no_device
            }
            Self::Several(all) => all.iter().all(Self::is_unreachable),
            _ => false,
        }
    }

    /// The caller lacks a privilege.
    pub fn is_permission(&self) -> bool {
        match self {
            Self::Netlink { source, .. } | Self::OpenNamespace { source, .. } => {
                source.is_permission()
            }
            Self::Record { source, .. }
            | Self::Bpf(
                netqos_bpf::Error::Command { source, .. }
                | netqos_bpf::Error::FileSystem { source, .. }
                | netqos_bpf::Error::Io { source, .. },
            ) => source.kind() == io::ErrorKind::PermissionDenied,
            Self::Several(all) => all.iter().any(Self::is_permission),
            _ => false,
        }
    }
}

/// Adds the original's words for what was being done.
pub(crate) trait Doing<T> {
    /// Names it.
    fn doing(self, doing: &'static str) -> Result<T>;
}

impl<T> Doing<T> for netqos_netlink::Result<T> {
    fn doing(self, doing: &'static str) -> Result<T> {
        self.map_err(|source| Error::Netlink { doing, source })
    }
}

/// Collects errors of steps that do not depend on each other.
#[derive(Debug, Default)]
pub(crate) struct Errors(Vec<Error>);

impl Errors {
    /// Notes the error, if it is one.
    pub(crate) fn note<T>(&mut self, result: Result<T>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.0.push(error);
                None
            }
        }
    }

    /// Success when nothing was noted.
    pub(crate) fn finish(mut self) -> Result<()> {
        match self.0.len() {
            0 => Ok(()),
            1 => Err(self.0.remove(0)),
            _ => Err(Error::Several(self.0)),
        }
    }
}

fn list(errors: &[Error]) -> String {
    errors
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interface_that_vanishes_meanwhile_is_unreachable() {
        for (errno, is_unreachable) in [(Errno::NODEV, true), (Errno::NOENT, false)] {
            let netlink = |doing| Error::Netlink {
                doing,
                source: netqos_netlink::Error::Refused {
                    doing: doing.to_owned(),
                    errno: errno.raw_os_error(),
                    extack: None,
                },
            };
            let bpf = Error::Bpf(netqos_bpf::Error::Command {
                command: "attach",
                source: errno.into(),
            });
            for error in [netlink("create qdisc"), bpf] {
                assert_eq!(error.is_unreachable(), is_unreachable, "{error:?}");
                let several = Error::Several(vec![error, netlink("create filter")]);
                assert_eq!(several.is_unreachable(), is_unreachable, "{several:?}");
            }
        }
        assert!(!Error::QdiscMissing.is_unreachable());
    }

    #[test]
    fn a_missing_privilege_is_seen_wherever_it_is_missed() {
        for (errno, is_permission) in [
            (Errno::PERM, true),
            (Errno::ACCESS, true),
            (Errno::NOSPC, false),
        ] {
            let source = || io::Error::from(errno);
            let path = || PathBuf::from("/run/x");
            for error in [
                Error::Record {
                    path: path(),
                    source: source(),
                },
                Error::Bpf(netqos_bpf::Error::Command {
                    command: "load",
                    source: source(),
                }),
                Error::Bpf(netqos_bpf::Error::FileSystem {
                    path: path(),
                    source: source(),
                }),
                Error::Bpf(netqos_bpf::Error::Io {
                    path: path(),
                    source: source(),
                }),
            ] {
                assert_eq!(error.is_permission(), is_permission, "{error:?}");
                let several = Error::Several(vec![Error::QdiscMissing, error]);
                assert_eq!(several.is_permission(), is_permission, "{several:?}");
            }
        }
    }
}
