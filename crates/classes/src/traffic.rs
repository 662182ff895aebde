//! What went through the classes of a line.

use std::collections::BTreeMap;

use netqos_core::Direction;
use netqos_core::classes::TrafficClass;
use netqos_netlink::Handle;
use netqos_netlink::class::InstalledClass;

/// What went through each class of a line, in each direction in which its packets are seen.
pub type Traffic = BTreeMap<(Direction, TrafficClass), Counted>;

/// What went through a class since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Packets that passed, those of a GSO packet each.
    pub packets: u64,
    /// Their bytes at layer 2.
    pub bytes: u64,
    /// Packets that found their queue full, as far as their queue is still there.
    pub dropped_packets: u64,
}

/// What went through the classes of a tree of HTB, each of which is known by the handle above its leaves.
pub(crate) fn counted(
    tree: &[InstalledClass],
    direction: Direction,
    whole: impl Fn(TrafficClass) -> Handle,
) -> Traffic {
    let parents: BTreeMap<Handle, Handle> =
        tree.iter().map(|one| (one.handle, one.parent)).collect();
    let is_below = |one: &InstalledClass, top: Handle| {
        let mut at = one.handle;
        // No tree is deeper: the line, a class, a pod, a flow, a leaf.
        for _ in 0..5 {
            if at == top {
                return true;
            }
            at = parents.get(&at).copied().unwrap_or(Handle::ROOT);
        }
        false
    };
    let of = |class: TrafficClass| {
        let top = tree.iter().find(|one| one.handle == whole(class))?;
        // What is above leaves counts what they send, and only a leaf what it drops.
        let below = tree.iter().filter(|one| is_below(one, top.handle));
        let counted = Counted {
            packets: top.statistics.packets.into(),
            bytes: top.statistics.bytes,
            dropped_packets: below.map(|one| u64::from(one.statistics.drops)).sum(),
        };
        Some(((direction, class), counted))
    };
    TrafficClass::ALL.into_iter().filter_map(of).collect()
}
