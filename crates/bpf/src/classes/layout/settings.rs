//! The node's settings: depths of cgroups, and tunnels.

use netqos_core::classes::TrafficClass;

use super::Slot;
use crate::rules::{Plain, plain};

/// How many UDP ports of tunnels the programs know.
pub const MOST_TUNNELS: usize = 8;

/// A kind of tunnel that has a UDP port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u16)]
pub enum TunnelKind {
    /// VXLAN (RFC 7348).
    Vxlan = 1,
    /// Geneve (RFC 8926).
    Geneve = 2,
    /// WireGuard: encrypted, so that its pods are unknown.
    WireGuard = 3,
}

/// A tunnel between nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tunnel {
    /// Its kind.
    pub kind: TunnelKind,
    /// The UDP port at which the node receives it.
    pub port: u16,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct TunnelEntry {
    port: u16,
    pub(super) kind: u16,
}

/// The node's settings for the programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Settings {
    /// A bit for each depth at which a pod's cgroup is, the root's the lowest.
    pub cgroup_levels: u16,
    pub(super) opaque_slot: u16,
    pub(super) has_ip_in_ip: u16,
    unused: u16,
    pub(super) tunnels: [TunnelEntry; MOST_TUNNELS],
}

impl Settings {
    /// Pods' cgroups are at these depths; the node has no tunnels.
    pub fn new(cgroup_levels: u16) -> Self {
        Self {
            cgroup_levels,
            ..Self::default()
        }
    }

    /// With these tunnels, of which all beyond [`MOST_TUNNELS`] are left out. `has_ip_in_ip`: and with those of IP
    /// in IP.
    #[must_use]
    pub fn tunnels(mut self, tunnels: &[Tunnel], has_ip_in_ip: bool) -> Self {
        for (to, tunnel) in self.tunnels.iter_mut().zip(tunnels) {
            *to = TunnelEntry {
                port: tunnel.port.to_be(),
                kind: tunnel.kind as u16,
            };
        }
        self.has_ip_in_ip = has_ip_in_ip.into();
        self
    }

    /// With the traffic class of packets whose pods are unknown.
    #[must_use]
    pub fn opaque(self, class: TrafficClass) -> Self {
        Self {
            opaque_slot: Slot::of(class).0,
            ..self
        }
    }
}

// bpf/classes.h asserts the same number.
plain! {
    Settings: 40,
}
