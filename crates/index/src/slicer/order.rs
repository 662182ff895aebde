//! In which order slices are written.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use netqos_core::objects::PeerSlice;
use netqos_core::plan::{PeerSet, SetId};
use netqos_core::{NetworkKey, ObjectName};

use super::layout::{Layout, SliceKey};
use super::{SliceWrite, names};
use crate::hash::HashSet;

/// When a slice is written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    /// It says that its set is not published any more, before anything is taken out of it.
    HeadGoes,
    /// It takes addresses out that other sets get.
    TakesOut,
    /// It may put such addresses in, or addresses that another slice of its set has now.
    PutsIn,
    /// It says that its set is published, which was not before.
    Head,
    /// It loses addresses to another slice of its set.
    HandsOver,
}

/// A slice that is not on the server as it should be.
struct Differing {
    key: SliceKey,
    id: SetId,
    set: Arc<PeerSet>,
    /// It is to be there, whether it has addresses or not.
    is_head: bool,
    /// It is not there.
    is_new: bool,
    there: BTreeSet<IpAddr>,
    lost: Vec<IpAddr>,
    new: Vec<IpAddr>,
}

/// What makes the server's slices those of the layout.
pub(super) fn writes(layout: &mut Layout, controller: &Arc<str>) -> Vec<SliceWrite> {
    let dirty = layout.take_dirty();
    let keys: Vec<SliceKey> = dirty.keys().copied().collect();
    let mut differing = Vec::new();
    for (key, there) in dirty {
        let Some(slice) = layout.get(key) else {
            continue;
        };
        let is_head = layout.is_head(slice);
        let is_new = there.is_none();
        let same = match &there {
            Some(there) => *there == slice.addresses && (is_head || !there.is_empty()),
            None => slice.addresses.is_empty() && !is_head,
        };
        let Some(set) = layout.set(slice.set).filter(|_| !same) else {
            continue;
        };
        let there = there.unwrap_or_default();
        differing.push(Differing {
            key,
            id: slice.set,
            set: set.clone(),
            is_head,
            is_new,
            lost: there.difference(&slice.addresses).copied().collect(),
            new: slice.addresses.difference(&there).copied().collect(),
            there,
        });
    }
    let moving = moving(&differing, layout);
    let mut turns: Vec<(Turn, SliceWrite)> = Vec::new();
    for differing in &differing {
        let network = &differing.set.network;
        let is_moving = |address: &IpAddr| moving.contains(&(network, *address));
        let is_out = |address: &IpAddr| is_moving(address) && !layout.has(differing.id, *address);
        let takes_out = differing.lost.iter().any(is_out);
        let puts_in = differing.new.iter().any(is_moving);
        let hands_over = differing.hands_over(layout);
        let turn = match (hands_over, puts_in, takes_out) {
            (true, ..) => Turn::HandsOver,
            _ if differing.is_head && differing.is_new => Turn::Head,
            _ if differing.head_goes(layout) => Turn::HeadGoes,
            (_, false, true) => Turn::TakesOut,
            _ => Turn::PutsIn,
        };
        if takes_out && turn > Turn::TakesOut {
            let mut left = differing.there.clone();
            left.retain(|address| !is_out(address));
            turns.push((Turn::TakesOut, differing.write(left, layout, controller)));
        }
        let addresses = layout.get(differing.key).map(|it| it.addresses.clone());
        let addresses = addresses.unwrap_or_default();
        turns.push((turn, differing.write(addresses, layout, controller)));
    }
    turns.sort_by_key(|(turn, _)| *turn);
    let writes = turns.into_iter().map(|(_, write)| write).collect();
    layout.settle(keys);
    writes
}

/// The addresses that leave one set and are new in another one of the same network.
fn moving<'d>(differing: &'d [Differing], layout: &Layout) -> HashSet<(&'d NetworkKey, IpAddr)> {
    let mut left = HashSet::default();
    for slice in differing {
        let out = slice.lost.iter().filter(|it| !layout.has(slice.id, **it));
        left.extend(out.map(|address| (&slice.set.network, *address)));
    }
    let mut moving = HashSet::default();
    for slice in differing {
        let new = slice.new.iter().map(|it| (&slice.set.network, *it));
        moving.extend(new.filter(|it| left.contains(it)));
    }
    moving
}

impl Differing {
    /// True when an address that it loses stays in its set.
    fn hands_over(&self, layout: &Layout) -> bool {
        self.lost.iter().any(|it| layout.has(self.id, *it))
    }

    /// True when its set loses its head with it.
    fn head_goes(&self, layout: &Layout) -> bool {
        let slice = layout.get(self.key);
        slice.is_some_and(|it| it.number == names::HEAD && it.addresses.is_empty()) && !self.is_head
    }

    fn write(
        &self,
        addresses: BTreeSet<IpAddr>,
        layout: &Layout,
        controller: &Arc<str>,
    ) -> SliceWrite {
        let number = layout.get(self.key).map_or(0, |slice| slice.number);
        let name = ObjectName {
            namespace: self.set.home(controller).clone(),
            name: names::of(self.id, number).into(),
        };
        if addresses.is_empty() && !self.is_head {
            return SliceWrite::Delete(name);
        }
        SliceWrite::Put(PeerSlice {
            name,
            set: self.id,
            network: self.set.network.clone(),
            addresses,
        })
    }
}
