//! Addresses that an entry requests for its interface.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

/// An IP address, with or without the length of its prefix: `10.1.0.5`, `fd00::5/64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestedAddress {
    /// The address.
    pub address: IpAddr,
    /// The number of bits of its prefix.
    pub prefix_len: Option<u8>,
}

/// An Ethernet address (EUI-48).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacAddress(pub [u8; 6]);

/// The GUID of an InfiniBand port, as `00:01:02:03:04:05:06:07`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InfinibandGuid(pub [u8; 8]);

/// A text that is no address of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an address")]
pub struct NotAnAddress;

impl FromStr for RequestedAddress {
    type Err = NotAnAddress;

    fn from_str(text: &str) -> Result<Self, NotAnAddress> {
        if let Ok(address) = text.parse() {
            return Ok(Self {
                address,
                prefix_len: None,
            });
        }
        let net: IpNet = text.parse().map_err(|_| NotAnAddress)?;
        Ok(Self {
            address: net.addr(),
            prefix_len: Some(net.prefix_len()),
        })
    }
}

impl fmt::Display for RequestedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)?;
        match self.prefix_len {
            Some(bits) => write!(f, "/{bits}"),
            None => Ok(()),
        }
    }
}

impl MacAddress {
    /// Returns true if a single interface may have the address: it is neither zero nor that of a group.
    pub fn is_unicast(self) -> bool {
        self.0[0] & 1 == 0 && self.0 != [0; 6]
    }
}

impl FromStr for MacAddress {
    type Err = NotAnAddress;

    /// Reads the forms of Go's `net.ParseMAC`: `0a:58:0a:f4:00:03`, with dashes, and `0a58.0af4.0003`.
    fn from_str(text: &str) -> Result<Self, NotAnAddress> {
        octets(text).map(Self)
    }
}

impl FromStr for InfinibandGuid {
    type Err = NotAnAddress;

    fn from_str(text: &str) -> Result<Self, NotAnAddress> {
        octets(text).map(Self)
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_octets(f, &self.0)
    }
}

impl fmt::Display for InfinibandGuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_octets(f, &self.0)
    }
}

/// Reads pairs of hexadecimal digits between colons or dashes, or groups of four between dots.
fn octets<const N: usize>(text: &str) -> Result<[u8; N], NotAnAddress> {
    let separator = ['.', '-', ':'].into_iter().find(|it| text.contains(*it));
    let separator = separator.ok_or(NotAnAddress)?;
    let in_group = if separator == '.' { 2 } else { 1 };
    let mut octets = [0; N];
    let mut groups = text.split(separator);
    for group in octets.chunks_mut(in_group) {
        let digits = groups.next().ok_or(NotAnAddress)?;
        if digits.len() != 2 * group.len() || !digits.bytes().all(|it| it.is_ascii_hexdigit()) {
            return Err(NotAnAddress);
        }
        let value = u16::from_str_radix(digits, 16).map_err(|_| NotAnAddress)?;
        group.copy_from_slice(&value.to_be_bytes()[2 - group.len()..]);
    }
    match groups.next() {
        Some(_) => Err(NotAnAddress),
        None => Ok(octets),
    }
}

fn write_octets(f: &mut fmt::Formatter<'_>, octets: &[u8]) -> fmt::Result {
    for (index, octet) in octets.iter().enumerate() {
        let separator = if index == 0 { "" } else { ":" };
        write!(f, "{separator}{octet:02x}")?;
    }
    Ok(())
}
