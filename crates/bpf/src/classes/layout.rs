//! The layout of the maps of classes, as `bpf/classes.h` has it for the programs.

mod settings;

use std::net::IpAddr;

use netqos_core::Direction;
use netqos_core::classes::TrafficClass;

use crate::rules::{Plain, plain};
use crate::tcx::instruction;

pub use settings::{MOST_TUNNELS, Settings, Tunnel, TunnelKind};

/// The major number of our classes in `net_cls.classid`.
pub const CGROUP_MAJOR: u16 = 0x6e71;
/// The major number of the handle of each tree of what is sent, and of what comes.
const EGRESS_MAJOR: u16 = 0x6e71;
const INGRESS_MAJOR: u16 = 0x6e72;
/// The highest number of a pod: what `skb->tc_index` has room for beside a bit that says so, and a flow.
pub const MOST_PODS: u16 = 0x7ff;
/// How many flows of a pod may have parts of their own.
pub const MOST_POD_FLOWS: usize = 15;
/// Beside a pod's number in the entry of its link: it has flows that are told apart there.
const LINK_FLOWS: u32 = 0x1_0000;
/// Depths at which a cgroup may be found.
pub const MOST_CGROUP_LEVELS: usize = 16;

/// How many trees there are whose first slots are found without a search, and how many slots of each.
pub(super) const NEAR_TREES: usize = 16;
pub(super) const NEAR_SLOTS: u32 = 512;

/// Where `struct __sk_buff` has the stamp.
const SK_BUFF_TC_INDEX: i16 = 44;
/// Beside a pod's number in a stamp.
const STAMP: u16 = 0x8000;
const FIRST_LEAF: u16 = 0x10;
const FIRST_INNER: u16 = 0x8000;

/// A part of every line: a class, a pod, or flows of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u16);

impl Slot {
    /// The first that is not a class's.
    pub const FIRST_FREE: Self = Self(3);
    /// The last that there may be: its leaves' numbers are below those of inner classes.
    pub const LAST: Self = Self((FIRST_INNER - FIRST_LEAF) / 2 - 1);

    /// That of a class as a whole.
    pub const fn of(class: TrafficClass) -> Self {
        Self(class.priority() as u16)
    }

    /// True for that of a class.
    pub fn is_class(self) -> bool {
        self < Self::FIRST_FREE
    }

    /// The minor number of what is above both leaves. A class's is that which the proposal gives it:
    /// 2, 3 and 4.
    pub fn inner(self) -> u16 {
        match self.is_class() {
            true => self.0 + 2,
            false => FIRST_INNER + self.0,
        }
    }

    /// The minor number of the leaf for flows that take little.
    pub const fn quick(self) -> u16 {
        FIRST_LEAF + 2 * self.0
    }

    /// The minor number of the leaf for all others.
    pub const fn bulk(self) -> u16 {
        FIRST_LEAF + 1 + 2 * self.0
    }
}

/// The entry of a pod's link.
pub const fn link_entry(pod: u32, has_flows: bool) -> u32 {
    if has_flows { pod | LINK_FLOWS } else { pod }
}

/// A program that stamps what comes by as this pod's, of no flow.
pub(super) fn stamping(pod: u32) -> [u64; 3] {
    let stamp = STAMP | (pod as u16 & MOST_PODS);
    [
        // *(u32 *)(r1 + tc_index) = stamp
        instruction(0x62, 1, 0, SK_BUFF_TC_INDEX, i32::from(stamp)),
        // next
        instruction(0xb7, 0, 0, 0, -1),
        instruction(0x95, 0, 0, 0, 0),
    ]
}

/// What `net_cls.classid` says of a pod on the host's network.
pub const fn cgroup_class(pod: u16) -> u32 {
    (CGROUP_MAJOR as u32) << 16 | pod as u32
}

/// Where a pod's traffic belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Pod {
    slots: [u16; 2],
    flows: u16,
    is_known: u16,
    address: [u8; 4],
    address6: [u8; 16],
    unused_too: u32,
}

impl Pod {
    /// These slots, and this many flows that are looked at first.
    pub fn new(ingress: Slot, egress: Slot, flows: usize) -> Self {
        Self {
            slots: [ingress.0, egress.0],
            flows: flows.min(MOST_POD_FLOWS) as u16,
            is_known: 1,
            ..Self::default()
        }
    }

    /// With the address of each family by which what it sends is known soonest: the lowest, where it
    /// has several.
    #[must_use]
    pub fn at<'a>(mut self, addresses: impl IntoIterator<Item = &'a IpAddr>) -> Self {
        for address in addresses {
            match address {
                IpAddr::V4(v4) if self.address == [0; 4] => self.address = v4.octets(),
                IpAddr::V6(v6) if self.address6 == [0; 16] => self.address6 = v6.octets(),
                _ => {}
            }
        }
        self
    }
}

/// Which flow of which pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct FlowKey {
    /// The pod's number.
    pub pod: u32,
    /// From 0.
    pub index: u32,
}

/// What of a flow's match counts.
#[derive(Clone, Copy, Debug)]
pub struct FlowFlags;

impl FlowFlags {
    const PEER: u8 = 1;
    const PORT: u8 = 2;
    const DSCP: u8 = 4;
    const MARKS: u8 = 8;
}

/// Flows of a pod that have a part of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Flow {
    peer: [u8; 16],
    peer_bits: u8,
    way: u8,
    flags: u8,
    dscp: u8,
    ports: [u16; 2],
    slot: u16,
    mark: u8,
    unused: [u8; 5],
}

impl Flow {
    /// All flows in this direction.
    pub fn new(direction: Direction, slot: Slot) -> Self {
        Self {
            way: way(direction),
            slot: slot.0,
            ..Self::default()
        }
    }

    /// Only those from and to these addresses.
    #[must_use]
    pub fn peer(self, peer: ipnet::IpNet) -> Self {
        let (peer, peer_bits) = match peer {
            ipnet::IpNet::V4(net) => (
                net.network().to_ipv6_mapped().octets(),
                96 + net.prefix_len(),
            ),
            ipnet::IpNet::V6(net) => (net.network().octets(), net.prefix_len()),
        };
        Self {
            peer,
            peer_bits,
            flags: self.flags | FlowFlags::PEER,
            ..self
        }
    }

    /// Only those of these ports on the pod.
    #[must_use]
    pub fn ports(self, first: u16, last: u16) -> Self {
        Self {
            ports: [first, last],
            flags: self.flags | FlowFlags::PORT,
            ..self
        }
    }

    /// Only those whose packets come with this code point.
    #[must_use]
    pub fn dscp(self, dscp: u8) -> Self {
        Self {
            dscp,
            flags: self.flags | FlowFlags::DSCP,
            ..self
        }
    }

    /// Marks their packets with this code point.
    #[must_use]
    pub fn marked(self, mark: u8) -> Self {
        Self {
            mark,
            flags: self.flags | FlowFlags::MARKS,
            ..self
        }
    }
}

/// One of a line's two trees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Tree(u32);

impl Tree {
    /// That of what goes in this direction by the line of this index.
    pub fn new(ifindex: u32, direction: Direction) -> Self {
        Self(ifindex | u32::from(way(direction)) << 31)
    }

    /// The index of the line.
    pub const fn ifindex(self) -> u32 {
        self.0 & !(1 << 31)
    }

    /// What goes in it.
    pub const fn direction(self) -> Direction {
        match self.0 >> 31 {
            0 => Direction::Ingress,
            _ => Direction::Egress,
        }
    }

    /// The major number of its handle.
    pub const fn major(self) -> u16 {
        match self.direction() {
            Direction::Ingress => INGRESS_MAJOR,
            Direction::Egress => EGRESS_MAJOR,
        }
    }
}

/// The trees whose first slots are found without a search, each at its place; 0: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Trees(pub(super) [Tree; NEAR_TREES]);

/// A slot in a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(C)]
pub struct LeafKey {
    /// The tree.
    pub tree: Tree,
    /// The slot.
    pub slot: u32,
}

impl LeafKey {
    /// That of a slot.
    pub fn new(tree: Tree, slot: Slot) -> Self {
        Self {
            tree,
            slot: slot.0.into(),
        }
    }
}

/// How flows of a slot are told apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Leaf {
    cost_per_byte: u64,
    allowance: u64,
    hold: u64,
    cost_shift: u32,
    state: [u32; 3],
    class: u16,
    may_pass: u16,
    longest: u32,
}

impl Leaf {
    /// Nanoseconds for which a flow is bulk after its last bulk packet.
    pub const fn hold(&self) -> u64 {
        self.hold
    }

    /// Of a slot whose flows all take little, whatever they took before.
    pub const ALL_LITTLE: Self = Self {
        // One that costs nothing is no leaf; this is nothing once it is shifted.
        cost_per_byte: 1,
        allowance: 1 << 40,
        hold: 0,
        cost_shift: u64::BITS - 1,
        state: [0; 3],
        class: 0,
        may_pass: 0,
        longest: 0,
    };

    /// Of a slot of this class that is guaranteed this many bytes per second. A flow takes little as long as it
    /// owes no more than `allowance` nanoseconds at a sixteenth of that; one that took more is bulk for
    /// `hold` nanoseconds.
    pub fn new(class: TrafficClass, bytes_per_second: u64, allowance: u64, hold: u64) -> Self {
        // A frame times the cost, and both times all flows, have to fit.
        const SHIFT: u32 = 10;
        Self {
            cost_per_byte: (1_000_000_000_u64 << SHIFT).div_ceil(bytes_per_second.max(1)),
            allowance,
            hold,
            cost_shift: SHIFT,
            class: Slot::of(class).0,
            ..Self::default()
        }
    }

    /// Whose packets pass beside the tree while the line carries little.
    #[must_use]
    pub fn passing(self, may_pass: bool) -> Self {
        Self {
            may_pass: may_pass.into(),
            ..self
        }
    }

    /// Flows with packets of more bytes than this are bulk.
    #[must_use]
    pub fn up_to(self, longest: u32) -> Self {
        Self { longest, ..self }
    }

    /// True when they do.
    pub const fn may_pass(&self) -> bool {
        self.may_pass != 0
    }

    /// True when both say the same, whatever the programs have counted.
    pub fn is_same(&self, other: &Self) -> bool {
        let settings = |leaf: &Self| Self {
            state: [0; 3],
            ..*leaf
        };
        settings(self) == settings(other)
    }
}

/// A direction as the programs have it.
fn way(direction: Direction) -> u8 {
    (direction == Direction::Egress).into()
}

/// An address as the programs have it: IPv4 as IPv4-mapped IPv6.
pub(super) fn key(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

plain! {
    Pod: 32,
    FlowKey: 8,
    Flow: 32,
    LeafKey: 8,
    Leaf: 48,
    Trees: 64,
}

#[cfg(test)]
mod header;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_never_share_a_number() {
        let numbers = |slot: Slot| [slot.inner(), slot.quick(), slot.bulk()];
        let mut all: Vec<u16> = (0..=Slot::LAST.0).flat_map(|n| numbers(Slot(n))).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
        assert_eq!(all[0], 2);
        assert!(
            TrafficClass::ALL
                .map(Slot::of)
                .into_iter()
                .all(Slot::is_class)
        );
    }

    #[test]
    fn a_flow_is_as_it_is_asked_for() {
        let net = "10.1.2.3/8".parse().unwrap();
        let flow = Flow::new(Direction::Egress, Slot(7))
            .peer(net)
            .ports(80, 81)
            .marked(46);
        assert_eq!((flow.peer_bits, flow.way, flow.slot), (104, 1, 7));
        assert_eq!(flow.peer[10..], [0xff, 0xff, 10, 0, 0, 0]);
        assert_eq!(flow.flags, 1 | 2 | 8);
    }

    #[test]
    fn a_pod_has_an_address_of_each_family() {
        let all = ["10.0.0.1", "10.0.0.2", "fd00::1"].map(|it| it.parse().unwrap());
        let pod = Pod::new(Slot(1), Slot(2), 0).at(&all);
        assert_eq!(pod.address, [10, 0, 0, 1]);
        assert_eq!((pod.address6[0], pod.address6[15]), (0xfd, 1));
        assert_eq!(Pod::new(Slot(1), Slot(2), 0).at(&[]).address, [0; 4]);
    }

    #[test]
    fn a_leaf_costs_what_its_rate_says() {
        // 12.5 MB/s: a frame of 1,500 bytes takes 120 µs.
        let of = TrafficClass::BestEffort;
        let leaf = Leaf::new(of, 12_500_000, 5, 6);
        assert_eq!((1500 * leaf.cost_per_byte) >> leaf.cost_shift, 120_000);
        let counted = Leaf {
            state: [1, 2, 3],
            ..leaf
        };
        assert!(leaf.is_same(&counted) && leaf != counted);
        assert!(!leaf.is_same(&Leaf::new(of, 12_600_000, 5, 6)));
        assert!(!leaf.is_same(&leaf.passing(true)));
    }
}
