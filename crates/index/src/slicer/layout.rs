//! Which address is in which slice.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use netqos_core::plan::{PeerSet, SetId};

use super::{names, size};
use crate::hash::HashMap;
use crate::slab::Slab;

/// A slice as long as it is there.
pub(super) type SliceKey = u32;

/// The slices of all sets.
#[derive(Debug, Default)]
pub(super) struct Layout {
    sets: HashMap<SetId, Sliced>,
    slices: Slab<Slice>,
    at: HashMap<(SetId, IpAddr), SliceKey>,
    /// The slices that changed, or were found otherwise, and what the server has in them; `None`
    /// where it has none such.
    dirty: BTreeMap<SliceKey, Option<BTreeSet<IpAddr>>>,
}

/// A set with at least one slice.
#[derive(Debug)]
struct Sliced {
    set: Arc<PeerSet>,
    /// True while it has a head, with addresses or without.
    named: bool,
    /// By their numbers.
    slices: Vec<SliceKey>,
}

#[derive(Debug)]
pub(super) struct Slice {
    pub(super) set: SetId,
    pub(super) number: u32,
    pub(super) addresses: BTreeSet<IpAddr>,
    /// What the addresses take.
    bytes: usize,
}

impl Layout {
    pub(super) fn set(&self, id: SetId) -> Option<&Arc<PeerSet>> {
        self.sets.get(&id).map(|sliced| &sliced.set)
    }

    /// Each set, whether it is named, and its slices by number.
    #[allow(clippy::type_complexity, reason = "said once, where it is taken apart")]
    pub(super) fn wanted(
        &self,
    ) -> impl Iterator<
        Item = (
            SetId,
            &Arc<PeerSet>,
            bool,
            impl Iterator<Item = (u32, &BTreeSet<IpAddr>)>,
        ),
    > {
        self.sets.iter().map(|(id, sliced)| {
            let slices = sliced.slices.iter();
            let slices = slices.filter_map(|key| self.slices.get(*key));
            let slices = slices.map(|slice| (slice.number, &slice.addresses));
            (*id, &sliced.set, sliced.named, slices)
        })
    }

    pub(super) fn get(&self, key: SliceKey) -> Option<&Slice> {
        self.slices.get(key)
    }

    /// The slice of this number of a set, and the set.
    pub(super) fn find(&self, id: SetId, number: u32) -> Option<(SliceKey, &Arc<PeerSet>)> {
        let sliced = self.sets.get(&id)?;
        let place = self.place_of(sliced, number).ok()?;
        Some((sliced.slices[place], &sliced.set))
    }

    /// True when an address is in any slice of a set.
    pub(super) fn has(&self, id: SetId, address: IpAddr) -> bool {
        self.at.contains_key(&(id, address))
    }

    pub(super) fn slices(&self) -> usize {
        self.sets.values().map(|sliced| sliced.slices.len()).sum()
    }

    /// The server has this in a slice, or has no such slice.
    pub(super) fn is_there(&mut self, key: SliceKey, there: Option<BTreeSet<IpAddr>>) {
        self.dirty.insert(key, there);
    }

    /// A slice of this number, which is free, without addresses.
    pub(super) fn insert(&mut self, id: SetId, set: &Arc<PeerSet>, number: u32) -> SliceKey {
        let key = self.slices.insert(Slice {
            set: id,
            number,
            addresses: BTreeSet::new(),
            bytes: 0,
        });
        let sliced = self.sets.entry(id).or_insert_with(|| Sliced {
            set: set.clone(),
            named: false,
            slices: Vec::new(),
        });
        let slices = &self.slices;
        let behind = |key: &SliceKey| slices.get(*key).is_some_and(|it| it.number < number);
        let place = sliced.slices.partition_point(behind);
        sliced.slices.insert(place, key);
        self.dirty.insert(key, None);
        key
    }

    /// A set is named by policies, and has a head from now on, or is named by none.
    pub(super) fn set_named(&mut self, id: SetId, set: &Arc<PeerSet>, named: bool) {
        let head = self.find(id, names::HEAD).map(|(key, _)| key);
        match (head, named) {
            (None, true) => drop(self.insert(id, set, names::HEAD)),
            (Some(head), false) => self.touch(head),
            _ => {}
        }
        if let Some(sliced) = self.sets.get_mut(&id) {
            sliced.named = named;
        }
    }

    pub(super) fn is_named(&self, id: SetId) -> bool {
        self.sets.get(&id).is_some_and(|sliced| sliced.named)
    }

    /// True when a slice is there because its set is named, whatever is in it.
    pub(super) fn is_head(&self, slice: &Slice) -> bool {
        slice.number == names::HEAD && self.is_named(slice.set)
    }

    /// True when there is room for an address in a slice.
    pub(super) fn fits(&self, key: SliceKey, address: IpAddr, room: usize) -> bool {
        self.bytes(key) + size::of(address) <= room
    }

    /// An address that is in no slice of its set gets into this one.
    pub(super) fn add(&mut self, key: SliceKey, address: IpAddr) {
        self.touch(key);
        if let Some(slice) = self.slices.get_mut(key) {
            slice.addresses.insert(address);
            slice.bytes += size::of(address);
            self.at.insert((slice.set, address), key);
        }
    }

    /// An address goes, out of whichever slice it is in.
    pub(super) fn remove(&mut self, id: SetId, address: IpAddr) {
        let Some(key) = self.at.remove(&(id, address)) else {
            return;
        };
        self.touch(key);
        if let Some(slice) = self.slices.get_mut(key) {
            slice.addresses.remove(&address);
            slice.bytes -= size::of(address);
        }
    }

    /// Addresses that are in no slice of their set yet get into slices that change anyway, or have the
    /// most room, or are new.
    pub(super) fn place(
        &mut self,
        id: SetId,
        set: &Arc<PeerSet>,
        addresses: BTreeSet<IpAddr>,
        room: usize,
    ) {
        if addresses.is_empty() {
            return;
        }
        let changing = self
            .slices_of(id)
            .filter(|key| self.dirty.contains_key(key));
        let mut changing: Vec<SliceKey> = changing.collect();
        for address in addresses {
            if self.has(id, address) {
                continue;
            }
            let fits = |key: &SliceKey| self.fits(*key, address, room);
            let emptiest = || self.slices_of(id).min_by_key(|key| self.bytes(*key));
            let key = changing.iter().rev().copied().find(fits);
            let key = match key {
                Some(key) => key,
                None => {
                    let key = match emptiest().filter(fits) {
                        Some(key) => key,
                        None => self.insert(id, set, self.free_number(id)),
                    };
                    changing.push(key);
                    key
                }
            };
            self.add(key, address);
        }
    }

    /// Where two slices together are three quarters full and less, the smaller is emptied into the
    /// other one.
    pub(super) fn merge(&mut self, id: SetId, room: usize) {
        let in_use = self.slices_of(id).filter(|key| self.bytes(*key) > 0);
        let mut emptiest: Vec<SliceKey> = in_use.collect();
        emptiest.sort_by_key(|key| self.bytes(*key));
        let [from, to, ..] = emptiest[..] else {
            return;
        };
        if self.bytes(from) + self.bytes(to) > room / 4 * 3 {
            return;
        }
        let addresses = self.get(from).map(|slice| slice.addresses.clone());
        for address in addresses.unwrap_or_default() {
            self.remove(id, address);
            self.add(to, address);
        }
    }

    /// The slices that changed, and what the server has in them. Those that are of no use are
    /// forgotten by [`Layout::settle`].
    pub(super) fn take_dirty(&mut self) -> BTreeMap<SliceKey, Option<BTreeSet<IpAddr>>> {
        std::mem::take(&mut self.dirty)
    }

    /// Forgets these slices, where they are empty and no heads.
    pub(super) fn settle(&mut self, changed: impl IntoIterator<Item = SliceKey>) {
        for key in changed {
            let of_no_use = |slice: &&Slice| slice.addresses.is_empty() && !self.is_head(slice);
            let empty = self.get(key).filter(of_no_use);
            let Some(id) = empty.map(|slice| slice.set) else {
                continue;
            };
            self.slices.remove(key);
            if let Some(sliced) = self.sets.get_mut(&id) {
                sliced.slices.retain(|other| *other != key);
                if sliced.slices.is_empty() {
                    self.sets.remove(&id);
                }
            }
        }
        self.slices.settle();
    }

    /// Remembers what a slice was when it was written last.
    fn touch(&mut self, key: SliceKey) {
        if let Some(slice) = self.slices.get(key) {
            let there = self.dirty.entry(key);
            there.or_insert_with(|| Some(slice.addresses.clone()));
        }
    }

    fn bytes(&self, key: SliceKey) -> usize {
        self.get(key).map_or(0, |slice| slice.bytes)
    }

    /// The slices of a set, by their numbers.
    fn slices_of(&self, id: SetId) -> impl Iterator<Item = SliceKey> {
        let sliced = self.sets.get(&id).into_iter();
        sliced.flat_map(|sliced| sliced.slices.iter().copied())
    }

    fn free_number(&self, id: SetId) -> u32 {
        let numbers = self.slices_of(id);
        let numbers = numbers.filter_map(|key| Some(self.get(key)?.number));
        let taken = (0..).zip(numbers).take_while(|(free, taken)| free == taken);
        u32::try_from(taken.count()).unwrap_or(u32::MAX)
    }

    fn place_of(&self, sliced: &Sliced, number: u32) -> Result<usize, usize> {
        let number_of = |key: &SliceKey| self.get(*key).map_or(0, |slice| slice.number);
        sliced.slices.binary_search_by_key(&number, number_of)
    }
}
