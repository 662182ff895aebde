//! Peer slices.

use std::collections::BTreeSet;

use netqos_core::objects::PeerSlice;
use netqos_core::plan::SetId;

use super::namespaced;
use super::selector::at_most;
use super::service::address;
use crate::field::{entry, item};
use crate::{FieldError, NetworkQoSPeerSlice, PEER_SET_LABEL};

/// The most addresses of a slice.
const ADDRESSES: usize = 256;

/// A `NetworkQoSPeerSlice`.
///
/// # Errors
/// It has no name, its label names no set, or its network or an address is none.
pub fn peer_slice(object: &NetworkQoSPeerSlice) -> Result<PeerSlice, FieldError> {
    let name = namespaced(&object.metadata)?;
    let label = || entry("metadata.labels", PEER_SET_LABEL);
    let labels = object.metadata.labels.as_ref();
    let Some(set) = labels.and_then(|labels| labels.get(PEER_SET_LABEL)) else {
        return Err(FieldError::new(label(), "missing"));
    };
    let set = set.parse().map_err(|why| FieldError::new(label(), why))?;
    let network = object.network.parse();
    let network = network.map_err(|why| FieldError::new("network", why))?;
    at_most(object.addresses.len(), ADDRESSES, "addresses")?;
    let mut addresses = BTreeSet::new();
    for (index, text) in object.addresses.iter().enumerate() {
        addresses.insert(address(text, item("addresses", index))?);
    }
    Ok(PeerSlice {
        name,
        set: SetId(set),
        network,
        addresses,
    })
}
