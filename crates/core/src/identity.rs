//! Who owns what: an attachment of a container to a network.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Tag;

/// What a pod's first interface is called by every runtime.
pub const FIRST_INTERFACE: &str = "eth0";

/// One interface of one container on one network: the unit in which CNI adds and deletes.
///
/// The three parts obey CNI's rules (CNI specification 1.1.0, section 2), so none of them holds a
/// colon, and a [`Tag`] is of one attachment only. None holds a slash either, so that files may be
/// named after them; one that is read from a file is held to the same rules.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct Attachment {
    network: String,
    container: String,
    interface: String,
}

/// Three strings that say that they are an attachment.
#[derive(Deserialize)]
struct Unchecked {
    network: String,
    container: String,
    interface: String,
}

/// Why three strings are not an attachment.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum IdentityError {
    /// A network name that CNI does not allow.
    #[error("invalid characters found in network name {0:?}")]
    Network(String),
    /// A container id that CNI does not allow.
    #[error("invalid characters in containerID {0:?}")]
    Container(String),
    /// An interface name that the kernel does not allow.
    #[error("{0:?} is not an interface name")]
    Interface(String),
    /// A tag that netqos did not write.
    #[error("{0:?} is not a netqos tag")]
    Tag(String),
}

impl Attachment {
    /// The attachment of `container`'s `interface` to `network`.
    pub fn try_new(network: &str, container: &str, interface: &str) -> Result<Self, IdentityError> {
        if !is_identifier(network) {
            return Err(IdentityError::Network(network.to_owned()));
        }
        if !is_identifier(container) {
            return Err(IdentityError::Container(container.to_owned()));
        }
        if !is_interface_name(interface) {
            return Err(IdentityError::Interface(interface.to_owned()));
        }
        Ok(Self {
            network: network.to_owned(),
            container: container.to_owned(),
            interface: interface.to_owned(),
        })
    }

    /// The network's name (`name` of the CNI network configuration).
    pub fn network(&self) -> &str {
        &self.network
    }

    /// The container's id (`CNI_CONTAINERID`).
    pub fn container(&self) -> &str {
        &self.container
    }

    /// The interface's name inside the container (`CNI_IFNAME`).
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// The mark that says "this is ours, for this attachment".
    pub fn tag(&self) -> Tag {
        Tag::new(self)
    }
}

impl TryFrom<Unchecked> for Attachment {
    type Error = IdentityError;

    fn try_from(parts: Unchecked) -> Result<Self, IdentityError> {
        Self::try_new(&parts.network, &parts.container, &parts.interface)
    }
}

impl fmt::Display for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.network, self.container, self.interface)
    }
}

/// CNI's rule for network names and container ids: `^[a-zA-Z0-9][a-zA-Z0-9_.\-]*$`.
pub fn is_identifier(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes
        .next()
        .is_some_and(|first| first.is_ascii_alphanumeric())
        && bytes.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'))
}

/// The kernel's rule for interface names (`dev_valid_name` in net/core/dev.c): at most 15 bytes,
/// not `.` or `..`, no slash, colon or white space. A NUL would end it before its end.
pub fn is_interface_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 15
        && text != "."
        && text != ".."
        && !text.contains(|c: char| matches!(c, '/' | ':' | '\0') || c.is_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_obey_cni_and_the_kernel_wherever_they_come_from() {
        for (network, container, interface) in [
            ("-net", "c", "eth0"),
            ("", "c", "eth0"),
            ("../net", "c", "eth0"),
            ("net", "c:1", "eth0"),
            ("net", "../../etc/x", "eth0"),
            ("net", "c", ""),
            ("net", "c", "sixteen-letters-"),
            ("net", "c", ".."),
            ("net", "c", "../eth0"),
            ("net", "c", "eth0:1"),
            ("net", "c", "eth 0"),
            ("net", "c", "eth0\0"),
        ] {
            let refused = Attachment::try_new(network, container, interface).unwrap_err();
            let record = serde_json::json!({
                "network": network, "container": container, "interface": interface,
            });
            let error = serde_json::from_value::<Attachment>(record).unwrap_err();
            assert_eq!(error.to_string(), refused.to_string());
        }
    }

    proptest! {
        #[test]
        fn records_round_trip(network in "[a-zA-Z0-9][a-zA-Z0-9_.-]{0,20}",
                           container in "[a-zA-Z0-9][a-zA-Z0-9_.-]{0,70}",
                           interface in "[a-z][a-z0-9@-]{0,14}") {
            let attachment = Attachment::try_new(&network, &container, &interface).unwrap();
            let record = serde_json::to_string(&attachment).unwrap();
            prop_assert_eq!(serde_json::from_str::<Attachment>(&record).unwrap(), attachment);
        }
    }
}
