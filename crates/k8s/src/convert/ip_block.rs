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

/// What `isCIDR` of an API server takes: an address and a prefix length. Bits behind the length may
/// be set. IPv4 addresses written as IPv6 are not taken.
fn prefix(text: &str) -> Result<IpNet, String> {
    let wrong = || format!("{text:?} is not a CIDR such as 10.0.0.0/8 or 2001:db8::/64");
    let net: IpNet = text.parse().map_err(|_| wrong())?;
    match net {
        IpNet::V6(net) if net.addr().to_ipv4_mapped().is_some() => Err(wrong()),
        net => Ok(net),
    }
}
