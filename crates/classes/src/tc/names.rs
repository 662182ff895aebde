//! The names that the proposal gives, and the few that it has none for.

use std::net::IpAddr;

use netqos_core::classes::TrafficClass;
use netqos_netlink::Handle;

/// `1:`, the HTB at a line's root.
pub(super) const QDISC: Handle = Handle::new(MAJOR, 0);
/// `1:1`, the line.
pub(super) const LINE: Handle = minor(1);
/// The least number of a part of a pod's own. What is below is the proposal's, or free.
pub(super) const FIRST_PART: u16 = 0x100;
/// By address, the class of those pods that have a part of their own.
const PARTS_SET: &str = "pod_class";
const MAJOR: u16 = 1;

/// IPv4 or IPv6, each with programs and sets of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Family {
    V4,
    V6,
}

/// `1:minor`.
pub(super) const fn minor(minor: u16) -> Handle {
    Handle::new(MAJOR, minor)
}

/// `1:2`, `1:3` and `1:4`: the class's traffic that has no part of its own.
pub(super) const fn rest(class: TrafficClass) -> Handle {
    minor(2 + class.priority() as u16)
}

/// `1:12`, `1:13` and `1:14`: the class as a whole, between the line and its parts.
pub(super) const fn whole(class: TrafficClass) -> Handle {
    minor(0x12 + class.priority() as u16)
}

/// The class whose [`whole`] this is.
pub(super) fn class_of(handle: Handle) -> Option<TrafficClass> {
    TrafficClass::ALL
        .into_iter()
        .find(|class| whole(*class) == handle)
}

/// Whether this may be the number of a part of a pod's own.
pub(super) fn is_part(handle: Handle) -> bool {
    handle == minor(handle.minor()) && handle.minor() >= FIRST_PART
}

/// Whether a cgroup has this number from this backend.
pub(super) fn is_cgroups(handle: Handle) -> bool {
    TrafficClass::ALL.map(rest).contains(&handle) || is_part(handle)
}

impl Family {
    pub(super) const BOTH: [Self; 2] = [Self::V4, Self::V6];

    pub(super) const fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    pub(super) const fn iptables(self) -> &'static str {
        match self {
            Self::V4 => "iptables",
            Self::V6 => "ip6tables",
        }
    }

    pub(super) const fn iptables_restore(self) -> &'static str {
        match self {
            Self::V4 => "iptables-restore",
            Self::V6 => "ip6tables-restore",
        }
    }

    /// What `ipset` calls it.
    pub(super) const fn inet(self) -> &'static str {
        match self {
            Self::V4 => "inet",
            Self::V6 => "inet6",
        }
    }

    /// The set of the addresses of a class's pods.
    pub(super) fn class_set(self, class: TrafficClass) -> String {
        self.named(match class {
            TrafficClass::System => "system_class",
            TrafficClass::LatencySensitive => "ls_class",
            TrafficClass::BestEffort => "be_class",
        })
    }

    /// The set of the addresses of pods that have a part of their own, each with its class.
    pub(super) fn parts_set(self) -> String {
        self.named(PARTS_SET)
    }

    fn named(self, set: &str) -> String {
        match self {
            Self::V4 => set.to_owned(),
            Self::V6 => format!("{set}_v6"),
        }
    }
}
