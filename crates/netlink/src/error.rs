//! What can go wrong between a request and its answer.

use std::io;

/// The result of everything in this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a request has no good answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel refused the request.
    #[error("{doing}: {}{}", io::Error::from_raw_os_error(*errno), explain(.extack))]
    Refused {
        /// What was being done, in words: `add qdisc tbf to vethab12`.
        doing: String,
        /// The kernel's error number.
        errno: i32,
        /// The kernel's explanation, where it gives one.
        extack: Option<String>,
    },
    /// The socket failed.
    #[error("{doing}: netlink socket: {source}")]
    Socket {
        /// What was being done.
        doing: String,
        /// The failure.
        source: io::Error,
    },
    /// An answer that is not well formed, or none where there must be one.
    #[error("{doing}: the kernel's answer cannot be read: {what}")]
    Malformed {
        /// What was being done.
        doing: String,
        /// What is wrong with the answer.
        what: String,
    },
    /// A network namespace could not be opened or entered.
    #[error("network namespace {path}: {source}")]
    Namespace {
        /// The file that names it.
        path: String,
        /// The failure.
        source: io::Error,
    },
    /// The request itself is wrong, found before it was sent.
    #[error("{0}")]
    Invalid(String),
}

impl Error {
    /// The kernel's error number, where the kernel gave one.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Refused { errno, .. } => Some(*errno),
            Self::Socket { source, .. } | Self::Namespace { source, .. } => source.raw_os_error(),
            Self::Malformed { .. } | Self::Invalid(_) => None,
        }
    }

    /// What was asked for is not there (any more): no such device, qdisc, filter or namespace.
    pub fn is_not_found(&self) -> bool {
        matches!(
            self.errno(),
            Some(libc::ENODEV | libc::ENOENT | libc::ENXIO)
        )
    }

    /// Somebody else's thing is in the way.
    pub fn is_exists(&self) -> bool {
        matches!(self.errno(), Some(libc::EEXIST | libc::EBUSY))
    }

    /// The kernel does not have what was asked for: a kind of link, qdisc, filter or action that
    /// is neither built in nor available as a module.
    pub fn is_unsupported(&self) -> bool {
        matches!(
            self.errno(),
            Some(libc::EOPNOTSUPP | libc::ENOENT | libc::ENOSYS)
        )
    }

    /// The caller may not do this.
    pub fn is_permission(&self) -> bool {
        matches!(self.errno(), Some(libc::EPERM | libc::EACCES))
    }
}

fn explain(extack: &Option<String>) -> String {
    extack
        .as_ref()
        .map(|text| format!(" ({text})"))
        .unwrap_or_default()
}
