//! The mark that says whose something in the kernel is.

use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

use crate::identity::{IdentityError, is_identifier, is_interface_name};
use crate::{Attachment, Digest};

/// What every tag starts with.
const PREFIX: &str = "netqos";
/// The longest tag whose names are written out, in letters of a file in a BPF file system, where a
/// dot takes three (`%2e`) and a direction follows. The kernel's aliases end at 255.
const LONGEST: usize = 240;
/// The longest name that is written out in a tag that would be longer: what containerd and CRI-O
/// call a container has 64 letters.
const LONGEST_NAME: usize = 64;
/// So much of a longer one is written out, for people.
const BEGINNING: usize = 32;
/// Between that and the digest, and in no name.
const SHORTENED: char = '~';
/// Letters of a digest.
const DIGEST: usize = 16;

/// `netqos:<network>:<container>:<interface>`: "this is ours, for this attachment". It becomes the
/// alias of links and the name of pins and records, so it has at most 240 letters, a dot taken as
/// three. Names that are too long for that are cut off and end with a digest of the whole; two
/// attachments have two tags either way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(String);

impl Tag {
    /// The attachment's.
    pub(crate) fn new(attachment: &Attachment) -> Self {
        let text = |network: &str, container: &str| {
            let interface = attachment.interface();
            format!("{PREFIX}:{network}:{container}:{interface}")
        };
        let (network, container) = (attachment.network(), attachment.container());
        let whole = text(network, container);
        if escaped(&whole) <= LONGEST {
            return Self(whole);
        }
        Self(text(&shortened(network), &shortened(container)))
    }

    /// True when it is one of an attachment to this network.
    pub fn is_of_network(&self, network: &str) -> bool {
        let written = self.names().split(':').next().unwrap_or_default();
        written == network || written == shortened(network)
    }

    /// The tag without what all have in common.
    pub fn names(&self) -> &str {
        self.0
            .split_once(':')
            .map_or(self.0.as_str(), |(_, names)| names)
    }
}

impl Deref for Tag {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Tag {
    type Err = IdentityError;

    /// Recognises a tag.
    fn from_str(text: &str) -> Result<Self, IdentityError> {
        let parts: Vec<&str> = text.split(':').collect();
        let [PREFIX, network, container, interface] = parts[..] else {
            return Err(IdentityError::Tag(text.to_owned()));
        };
        if !is_written(network) {
            return Err(IdentityError::Network(network.to_owned()));
        }
        if !is_written(container) {
            return Err(IdentityError::Container(container.to_owned()));
        }
        if !is_interface_name(interface) {
            return Err(IdentityError::Interface(interface.to_owned()));
        }
        Ok(Self(text.to_owned()))
    }
}

fn escaped(text: &str) -> usize {
    let takes_three = |byte: &u8| matches!(byte, b'.' | b'%');
    text.len() + 2 * text.bytes().filter(takes_three).count()
}

/// A name as it stands in a tag that is too long with all names written out.
fn shortened(name: &str) -> String {
    if escaped(name) <= LONGEST_NAME {
        return name.to_owned();
    }
    let beginning: String = name
        .chars()
        .take(BEGINNING)
        .map(|letter| if letter == '.' { '-' } else { letter })
        .collect();
    format!("{beginning}{SHORTENED}{}", Digest::of(&name))
}

/// True for a name, whole or cut off.
fn is_written(name: &str) -> bool {
    match name.split_once(SHORTENED) {
        None => is_identifier(name),
        Some((beginning, digest)) => {
            is_identifier(beginning)
                && beginning.len() <= BEGINNING
                && digest.len() == DIGEST
                && digest.bytes().all(|byte| byte.is_ascii_hexdigit())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tag(network: &str, container: &str) -> Tag {
        Attachment::try_new(network, container, "eth0")
            .unwrap()
            .tag()
    }

    #[test]
    fn what_is_not_ours_is_not_read_as_ours() {
        for text in [
            "",
            "netqos",
            "netqos:a:b",
            "netqos:a:b:c:d",
            "cali:a:b:c",
            "netqos::b:eth0",
            "netqos:a~b:c:eth0",
            "netqos:~0123456789abcdef:c:eth0",
            "netqos:a~0123456789abcdeg:c:eth0",
        ] {
            assert!(text.parse::<Tag>().is_err(), "{text}");
        }
    }

    #[test]
    fn names_are_written_out_as_long_as_they_fit() {
        let id = "c".repeat(64);
        for (network, container, expected) in [
            ("net", "c1", "netqos:net:c1:eth0".to_owned()),
            (
                &"n".repeat(160),
                "c1",
                format!("netqos:{}:c1:eth0", "n".repeat(160)),
            ),
            (
                &"n".repeat(170),
                &id,
                // printf '"%s"' nnn… | sha256sum
                format!("netqos:{}~42d2d44134e3e761:{id}:eth0", "n".repeat(32)),
            ),
        ] {
            assert_eq!(&*tag(network, container), expected);
        }
    }

    #[test]
    fn names_that_differ_only_at_their_end_have_different_tags() {
        let name = |end| format!("{}{end}", "n".repeat(200));
        assert_ne!(tag(&name("1"), "c"), tag(&name("2"), "c"));
        assert_ne!(tag("n", &name("1")), tag("n", &name("2")));
        assert!(tag(&name("1"), "c").is_of_network(&name("1")));
        assert!(!tag(&name("1"), "c").is_of_network(&name("2")));
    }

    proptest! {
        #[test]
        fn tags_fit_and_round_trip(network in "[a-zA-Z0-9][a-zA-Z0-9_.-]{0,300}",
                                   container in "[a-zA-Z0-9][a-zA-Z0-9_.-]{0,300}",
                                   interface in "[a-z.%][a-z0-9@.%-]{1,14}") {
            prop_assume!(interface != "..");
            let tag = Attachment::try_new(&network, &container, &interface).unwrap().tag();
            prop_assert!(escaped(&tag) <= LONGEST, "{tag}");
            prop_assert!(tag.is_of_network(&network), "{tag}");
            prop_assert!(!tag.is_of_network(&container) || network == container);
            prop_assert_eq!(tag.parse::<Tag>(), Ok(tag.clone()));
        }

        #[test]
        fn parsing_never_panics(text in "(netqos:)?.{0,200}") {
            if let Ok(tag) = text.parse::<Tag>() {
                prop_assert_eq!(&*tag, text);
                let _ = tag.names();
            }
        }
    }
}
