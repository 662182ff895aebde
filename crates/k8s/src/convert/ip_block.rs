//! `ipBlock`.

use ipnet::IpNet;
use netqos_core::{IpBlock, PolicyError};

use super::selector::at_most;
use crate::FieldError;
use crate::field::item;

/// The most exceptions of a block.
const EXCEPT: usize = 100;

pub(super) fn ip_block(block: &crate::IpBlock) -> Result<IpBlock, FieldError> {
    let cidr = prefix(&block.cidr).map_err(|message| FieldError::new("cidr", message))?;
    let except = block.except.as_deref().unwrap_or_default();
    at_most(except.len(), EXCEPT, "except")?;
    let mut prefixes = Vec::with_capacity(except.len());
    for (index, text) in except.iter().enumerate() {
        let path = item("except", index);
        prefixes.push(prefix(text).map_err(|message| FieldError::new(path, message))?);
    }
    IpBlock::try_new(cidr, prefixes).map_err(|error| match &error {
        PolicyError::ExceptOutside { .. } => FieldError::new("except", error),
        PolicyError::Priority(_) => FieldError::new("cidr", error),
    })
}

/// What `isCIDR` of an API server takes (`netip.ParsePrefix`): an address and a prefix length, in decimal
/// numbers without leading zeros. Bits behind the length may be set. IPv4 addresses written as IPv6 are not
/// taken.
fn prefix(text: &str) -> Result<IpNet, String> {
    let read = || {
        let (address, length) = text.split_once('/')?;
        let is_number = length == "0" || length.starts_with(|first| matches!(first, '1'..='9'));
        let length = length.parse().ok().filter(|_| is_number)?;
        IpNet::new(address.parse().ok()?, length).ok()
    };
    let wrong = || format!("{text:?} is not a CIDR such as 10.0.0.0/8 or 2001:db8::/64");
    match read().ok_or_else(wrong)? {
        IpNet::V6(net) if net.addr().to_ipv4_mapped().is_some() => Err(wrong()),
        net => Ok(net),
    }
}

#[cfg(test)]
mod tests {
    use super::prefix;

    #[test]
    fn leading_zeros_and_signs_are_none_of_a_cidrs() {
        for right in [
            "10.0.0.0/8",
            "0.0.0.0/0",
            "10.1.2.3/32",
            "::/0",
            "2001:DB8::1/64",
        ] {
            assert!(prefix(right).is_ok(), "{right}");
        }
        for wrong in [
            "010.0.0.0/8",
            "10.0.0.0/08",
            "10.0.0.0/+8",
            "::/00",
            "::1.2.3.04/128",
            "10.0.0.0",
            "10.0.0.0/33",
            "10.0.0.0/",
            "/8",
            "10.0.0.0/8/8",
            " 10.0.0.0/8",
            "::ffff:10.0.0.0/104",
            "fe80::1%eth0/64",
        ] {
            assert!(prefix(wrong).is_err(), "{wrong}");
        }
    }
}
