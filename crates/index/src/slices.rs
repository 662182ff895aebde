//! The slices that a controller publishes the addresses of peer sets in.
//!
//! A slice of a set that is asked for claims its addresses, as a pod does its own. All others are
//! kept as they are until somebody asks for their set.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use netqos_core::objects::PeerSlice;
use netqos_core::plan::{PeerSet, SetId};
use netqos_core::{NetworkKey, ObjectName};

use crate::addresses::canonical;
use crate::combinations::CombinationKey;
use crate::hash::HashMap;
use crate::members::Members;
use crate::slab::Slab;

/// A slice as long as it is there.
pub(crate) type SliceKey = u32;

/// The slices that are there.
#[derive(Debug)]
pub(crate) struct Slices {
    /// Where slices of sets of several namespaces are.
    controller: Arc<str>,
    entries: Slab<Entry>,
    by_name: HashMap<ObjectName, SliceKey>,
    by_set: HashMap<SetId, BTreeSet<SliceKey>>,
}

#[derive(Debug)]
struct Entry {
    name: ObjectName,
    set: SetId,
    network: NetworkKey,
    /// Sorted.
    addresses: Box<[IpAddr]>,
    /// That of its set, where that is asked for: then its addresses are claimed.
    counts: Option<CombinationKey>,
}

impl Slices {
    pub(crate) fn new(controller: Arc<str>) -> Self {
        Self {
            controller,
            entries: Slab::default(),
            by_name: HashMap::default(),
            by_set: HashMap::default(),
        }
    }

    /// A slice is there, new or changed.
    pub(crate) fn put(&mut self, mut slice: PeerSlice, members: &mut Members) {
        canonical(&mut slice.addresses);
        let known = self.by_name.get(&slice.name).copied();
        let entry = known.and_then(|key| Some((key, self.entries.get_mut(key)?)));
        if let Some((key, entry)) = entry {
            if (entry.set, &entry.network) == (slice.set, &slice.network) {
                entry.replace(key, &slice.addresses, members);
                return;
            }
            self.remove(&slice.name, members);
        }
        let PeerSlice {
            name,
            set,
            network,
            addresses,
        } = slice;
        let key = self.entries.insert(Entry {
            name: name.clone(),
            set,
            network,
            addresses: addresses.into_iter().collect(),
            counts: None,
        });
        self.by_name.insert(name, key);
        self.by_set.entry(set).or_default().insert(key);
        if let Some(of) = members.sets.get(set).cloned()
            && let Some(entry) = self.entries.get_mut(key)
        {
            entry.begin(key, &of, &self.controller, members);
        }
    }

    /// A slice is gone.
    pub(crate) fn remove(&mut self, name: &ObjectName, members: &mut Members) {
        let Some(key) = self.by_name.remove(name) else {
            return;
        };
        let Some(mut entry) = self.entries.remove(key) else {
            return;
        };
        entry.end(key, members);
        if let Some(keys) = self.by_set.get_mut(&entry.set) {
            keys.remove(&key);
            if keys.is_empty() {
                self.by_set.remove(&entry.set);
            }
        }
    }

    /// A set is asked for, and was not before.
    pub(crate) fn begin(&mut self, id: SetId, set: &PeerSet, members: &mut Members) {
        for key in self.by_set.get(&id).into_iter().flatten() {
            if let Some(entry) = self.entries.get_mut(*key) {
                entry.begin(*key, set, &self.controller, members);
            }
        }
    }

    /// Nobody asks for a set any more.
    pub(crate) fn end(&mut self, id: SetId, members: &mut Members) {
        for key in self.by_set.get(&id).into_iter().flatten() {
            if let Some(entry) = self.entries.get_mut(*key) {
                entry.end(*key, members);
            }
        }
    }

    /// What the addresses of a slice belong to.
    pub(crate) fn combination(&self, key: SliceKey) -> Option<CombinationKey> {
        self.entries.get(key)?.counts
    }

    /// Keys of slices that are gone may be given to others from now on.
    pub(crate) fn settle(&mut self) {
        self.entries.settle();
    }

    /// The slices in which an address is published as one of this set. All are looked at.
    pub(crate) fn publishing<'s>(
        &'s self,
        set: &'s PeerSet,
        address: IpAddr,
    ) -> impl Iterator<Item = &'s ObjectName> {
        let id = set.id();
        let all = self.entries.iter().map(|(_, entry)| entry);
        all.filter(move |entry| entry.set == id && entry.is_of(set, &self.controller))
            .filter(move |entry| entry.addresses.contains(&address))
            .map(|entry| &entry.name)
    }
}

impl Entry {
    /// True when it is where the set's slices are: whoever may write objects of one namespace must
    /// not decide who is a peer in another.
    fn is_of(&self, set: &PeerSet, controller: &Arc<str>) -> bool {
        self.name.namespace == *set.home(controller) && self.network == set.network
    }

    fn begin(&mut self, key: SliceKey, set: &PeerSet, home: &Arc<str>, members: &mut Members) {
        if self.counts.is_some() || !self.is_of(set, home) {
            return;
        }
        self.counts = members.combinations.acquire(&[self.set]);
        for address in &self.addresses {
            self.claim(*address, key, members);
        }
    }

    fn end(&mut self, key: SliceKey, members: &mut Members) {
        if self.counts.is_none() {
            return;
        }
        for address in &self.addresses {
            self.leave(*address, key, members);
        }
        members.combinations.release(self.counts.take());
    }

    /// It has these addresses now.
    fn replace(&mut self, key: SliceKey, addresses: &BTreeSet<IpAddr>, members: &mut Members) {
        if self.addresses.iter().eq(addresses) {
            return;
        }
        if self.counts.is_some() {
            for gone in self.addresses.iter().filter(|it| !addresses.contains(it)) {
                self.leave(*gone, key, members);
            }
            for new in addresses {
                if self.addresses.binary_search(new).is_err() {
                    self.claim(*new, key, members);
                }
            }
        }
        self.addresses = addresses.iter().copied().collect();
    }

    fn claim(&self, address: IpAddr, key: SliceKey, members: &mut Members) {
        let addresses = &mut members.addresses;
        let address = addresses.key(&self.network, address);
        addresses.claim(address, key);
        addresses.touch(address);
    }

    fn leave(&self, address: IpAddr, key: SliceKey, members: &mut Members) {
        let addresses = &mut members.addresses;
        if let Some(address) = addresses.find(&self.network, address) {
            addresses.leave(address, key);
            addresses.touch(address);
        }
    }
}
