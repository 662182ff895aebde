//! Virtual addresses of Services and their backends.

use std::net::IpAddr;

use super::{Peer, plain};
use crate::rules::Plain;

/// A port of a virtual address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub struct ServiceKey {
    address: Peer,
    port: [u8; 2],
    protocol: u8,
    reserved: [u8; 5],
}

/// A port of a virtual address to one chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub struct ChainServiceKey {
    /// The chain's digest.
    pub chain: u64,
    /// The port.
    pub service: ServiceKey,
}

/// The most kinds of backends of a Service that the program looks at each.
pub const SERVICE_KINDS: usize = 8;

/// The backends behind a port of a virtual address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Service {
    kinds: [Backend; SERVICE_KINDS],
    count: u32,
}

/// A backend that stands for all that are alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
struct Backend {
    address: Peer,
    port: [u8; 2],
    reserved: u16,
}

impl ServiceKey {
    /// A port of a virtual address.
    pub fn new(address: IpAddr, protocol: u8, port: u16) -> Self {
        Self {
            address: address.into(),
            port: port.to_be_bytes(),
            protocol,
            reserved: [0; 5],
        }
    }
}

impl Service {
    /// A Service with backends of these kinds, one of each. Where they are more than
    /// [`SERVICE_KINDS`], the program looks for the entry of the packet's chain, and without one
    /// cannot tell what they have in common.
    pub fn new(kinds: &[(IpAddr, u16)]) -> Self {
        let mut service = Self::default();
        if kinds.len() <= SERVICE_KINDS {
            for (kind, (address, port)) in service.kinds.iter_mut().zip(kinds) {
                kind.address = (*address).into();
                kind.port = port.to_be_bytes();
            }
            service.count = kinds.len() as u32;
        }
        service
    }

    /// The backends that it was made of; none where they were too many.
    pub fn kinds(&self) -> impl Iterator<Item = (IpAddr, u16)> {
        let kinds = self.kinds.iter().take(self.count as usize);
        kinds.map(|kind| (kind.address.into(), u16::from_be_bytes(kind.port)))
    }

    /// Returns true if they were too many.
    pub fn is_crowded(&self) -> bool {
        self.count == 0
    }

    /// Returns true if its backends are of several kinds, so that it may matter which of them a
    /// connection goes to.
    pub fn is_mixed(&self) -> bool {
        self.count != 1
    }
}

// bpf/rules.h asserts the same numbers.
plain! {
    ServiceKey: 24,
    ChainServiceKey: 32,
    Backend: 20,
    Service: 164,
}
