//! An address with the length of its network's prefix, as results write it.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An address and its prefix length: `10.1.0.2/16`. The bits behind the prefix are kept: they are
/// the host's part of an interface's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IpPrefix {
    address: IpAddr,
    length: u8,
}

/// A text that is not an address with a prefix length.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid CIDR address: {0}")]
pub struct PrefixError(String);

impl IpPrefix {
    /// `None` when the length is longer than the address.
    pub fn new(address: IpAddr, length: u8) -> Option<Self> {
        let longest = if address.is_ipv4() { 32 } else { 128 };
        (length <= longest).then_some(Self { address, length })
    }

    /// The address.
    pub const fn address(self) -> IpAddr {
        self.address
    }

    /// How many bits of it are the network's.
    pub const fn length(self) -> u8 {
        self.length
    }

    /// True for IPv4, and for IPv4 written as IPv6, which Go takes for the same.
    pub fn is_ipv4(self) -> bool {
        self.address.to_canonical().is_ipv4()
    }
}

impl FromStr for IpPrefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Self, PrefixError> {
        text.split_once('/')
            .filter(|(_, length)| length.bytes().all(|b| b.is_ascii_digit()))
            .and_then(|(address, length)| Self::new(address.parse().ok()?, length.parse().ok()?))
            .ok_or_else(|| PrefixError(text.to_owned()))
    }
}

impl fmt::Display for IpPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

impl Serialize for IpPrefix {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for IpPrefix {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(D::Error::custom)
    }
}

/// For serde: an address that may be absent, `null` or the empty text, as Go's `net.IP`.
pub(crate) fn optional_address<'de, D>(deserializer: D) -> Result<Option<IpAddr>, D::Error>
where
    D: Deserializer<'de>,
{
    match Option::<String>::deserialize(deserializer)?.as_deref() {
        None | Some("") => Ok(None),
        Some(text) => text
            .parse()
            .map(Some)
            .map_err(|_| D::Error::custom(format!("invalid IP address: {text}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_not_a_prefix_is_refused() {
        for text in [
            "",
            "/",
            "10.0.0.1",
            "10.0.0.1/",
            "10.0.0.1/33",
            "10.0.0.1/+8",
            "10.0.0/8",
            "::/129",
            "::1/256",
            "10.0.0.1/8/9",
        ] {
            assert_eq!(
                text.parse::<IpPrefix>().map_err(|e| e.to_string()),
                Err(format!("invalid CIDR address: {text}"))
            );
        }
    }

    proptest! {
        #[test]
        fn prefixes_round_trip(address: IpAddr, length in 0_u8..=128) {
            let Some(prefix) = IpPrefix::new(address, length) else { return Ok(()) };
            prop_assert_eq!(prefix.to_string().parse(), Ok(prefix));
        }

        #[test]
        fn parsing_never_panics(text in "[0-9a-f.:/]{0,40}|.{0,40}") {
            let _ = text.parse::<IpPrefix>();
        }
    }
}
