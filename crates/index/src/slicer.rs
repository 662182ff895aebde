//! The addresses of peer sets, in slices of a size that is cheap to send to every node.
//!
//! ```text
//!  PeerIndex ── PeerChange ──► Slicer ── SliceWrite ──► API server ──► Index (PeerSource::Slices)
//!                                 ▲                         │
//!                                 └── found(), gone() ──────┘ what is there, as it is watched
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use netqos_core::ObjectName;
use netqos_core::objects::PeerSlice;
use netqos_core::plan::{PeerSet, SetId};

use crate::addresses::canonical;
use crate::peer_index::PeerChange;

mod layout;
mod names;
mod order;
mod size;

use layout::Layout;
pub use names::head_name;

/// Which slices there are to be, and what is to be written so that there are.
///
/// A slice takes at most 2 KB, and a change touches as few of them as can be: an address that goes
/// leaves its slice, one that comes goes into a slice that is to be written anyway, else into the
/// one with the most room. A slice without addresses is deleted; two of one set that are well below
/// half full become one, at most two of a set at a time.
///
/// The slice of number 0 is the **head** of its set. It is there as long as any policy names the set,
/// without addresses if need be, and of a set that is published for the first time it is written
/// last: whoever sees it knows the whole set, and whoever does not knows that the set is not
/// published yet, rather than empty ([`head_name`]). Of a set that goes it is deleted first.
///
/// Slices that are there already, as after a restart, are told to it by [`Slicer::found`]; what is
/// right of them is not touched.
#[derive(Debug)]
pub struct Slicer {
    /// Where slices of sets of several namespaces are.
    controller: Arc<str>,
    layout: Layout,
    pending: BTreeMap<SetId, Pending>,
    found: BTreeMap<ObjectName, PeerSlice>,
}

/// Something to do at the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SliceWrite {
    /// This slice is to be there as it is here, whether it was there before or not.
    Put(PeerSlice),
    /// This slice is not to be there.
    Delete(ObjectName),
}

/// A set, and the slices that it is to have.
#[derive(Debug)]
pub struct WantedSet<'s> {
    /// The set's name.
    pub id: SetId,
    /// The set.
    pub set: &'s PeerSet,
    /// True while any policy names it.
    pub is_named: bool,
    /// Its slices by name, and what is to be in each.
    pub slices: Vec<(ObjectName, &'s BTreeSet<IpAddr>)>,
}

/// What is still to be done for a set.
#[derive(Debug)]
struct Pending {
    set: Arc<PeerSet>,
    named: bool,
    gone: BTreeSet<IpAddr>,
    new: BTreeSet<IpAddr>,
}

impl Slicer {
    /// Slices of no sets. `controller` is the controller's namespace, where the slices of sets of
    /// several namespaces are; those of a set of one namespace are there.
    pub fn new(controller: &str) -> Self {
        Self {
            controller: controller.into(),
            layout: Layout::default(),
            pending: BTreeMap::new(),
            found: BTreeMap::new(),
        }
    }

    /// Takes note of what became of sets.
    pub fn change(&mut self, changes: Vec<PeerChange>) {
        for change in changes {
            let PeerChange {
                id,
                set,
                named,
                gone,
                new,
            } = change;
            let pending = self.pending.entry(id).or_insert_with(|| Pending {
                set,
                named,
                gone: BTreeSet::new(),
                new: BTreeSet::new(),
            });
            pending.named = named;
            for address in gone {
                if !pending.new.remove(&address) {
                    pending.gone.insert(address);
                }
            }
            for address in new {
                if !pending.gone.remove(&address) {
                    pending.new.insert(address);
                }
            }
        }
    }

    /// A slice is there on the API server. Those that it was told to write itself may be told to it
    /// like any other; what is not right is put right by the next [`Slicer::take_writes`].
    pub fn found(&mut self, mut slice: PeerSlice) {
        canonical(&mut slice.addresses);
        self.found.insert(slice.name.clone(), slice);
    }

    /// A slice is not there, or could not be written.
    pub fn gone(&mut self, name: &ObjectName) {
        self.found.remove(name);
        if let Some((id, number)) = names::parse(&name.name)
            && let Some((key, set)) = self.layout.find(id, number)
            && name.namespace == *set.home(&self.controller)
        {
            self.layout.is_there(key, None);
        }
    }

    /// What is to be written, in this order, after which all is as it should be. To be asked for the
    /// first time when all sets are known, since slices of unknown ones go.
    ///
    /// An address that left one set and is new in another, as when it moves to another pod, is
    /// taken out of the one before it is put into the other; one that only gets into another slice
    /// of its set is put in there before it is taken out here. A slice may be in it twice for that.
    pub fn take_writes(&mut self) -> Vec<SliceWrite> {
        let mut pending = std::mem::take(&mut self.pending);
        for (id, pending) in &pending {
            for address in &pending.gone {
                self.layout.remove(*id, *address);
            }
        }
        let mut strays = Vec::new();
        for slice in std::mem::take(&mut self.found).into_values() {
            if let Err(name) = self.adopt(slice, &mut pending) {
                strays.push(name);
            }
        }
        for (id, pending) in pending {
            let Pending {
                set,
                named,
                gone,
                new,
            } = pending;
            let room = size::room(&set, &self.controller);
            self.layout.set_named(id, &set, named);
            self.layout.place(id, &set, new, room);
            if !gone.is_empty() {
                self.layout.merge(id, room);
            }
        }
        let mut writes = order::writes(&mut self.layout, &self.controller);
        writes.extend(strays.into_iter().map(SliceWrite::Delete));
        writes
    }

    /// True when a slice is of a set that policies name, as of the last [`Slicer::take_writes`].
    pub fn is_named(&self, slice: &ObjectName) -> bool {
        names::parse(&slice.name).is_some_and(|(id, _)| self.layout.is_named(id))
    }

    /// How many slices there are to be, as of the last [`Slicer::take_writes`].
    pub fn slices(&self) -> usize {
        self.layout.slices()
    }

    /// What there is to be, as of the last [`Slicer::take_writes`].
    pub fn wanted(&self) -> impl Iterator<Item = WantedSet<'_>> {
        self.layout.wanted().map(|(id, set, is_named, slices)| {
            let home = set.home(&self.controller);
            let slices = slices.map(|(number, addresses)| {
                let name = ObjectName {
                    namespace: home.clone(),
                    name: names::of(id, number).into(),
                };
                (name, addresses)
            });
            WantedSet {
                id,
                set,
                is_named,
                slices: slices.collect(),
            }
        })
    }

    /// Of how many sets something has become known since then.
    pub fn waiting(&self) -> usize {
        self.pending.len()
    }

    /// Takes a slice that is there for one of its own. The name of one that is to go is the error.
    fn adopt(
        &mut self,
        slice: PeerSlice,
        pending: &mut BTreeMap<SetId, Pending>,
    ) -> Result<(), ObjectName> {
        let PeerSlice {
            name,
            set: id,
            network,
            addresses,
        } = slice;
        let waiting = pending.get_mut(&id);
        let set = match &waiting {
            Some(pending) => Some(pending.set.clone()),
            None => self.layout.set(id).cloned(),
        };
        let is_named = match &waiting {
            Some(pending) => pending.named,
            None => self.layout.is_named(id),
        };
        let named = names::parse(&name.name).filter(|(named, _)| *named == id);
        let (Some((_, number)), Some(set)) = (named, set) else {
            return Err(name);
        };
        if name.namespace != *set.home(&self.controller) {
            return Err(name);
        }
        // Of another network nothing is right, whatever is in it.
        let there = match network == set.network {
            true => addresses,
            false => BTreeSet::new(),
        };
        let known = self.layout.find(id, number).map(|(key, _)| key);
        let key = known.unwrap_or_else(|| self.layout.insert(id, &set, number));
        if known.is_none()
            && let Some(pending) = waiting
        {
            // What is not to be in the set, or is in another slice of it already, is left out, and
            // so is what is too much.
            let room = size::room(&set, &self.controller);
            for address in &there {
                if self.layout.fits(key, *address, room) && pending.new.remove(address) {
                    self.layout.add(key, *address);
                }
            }
        }
        // A head is right without addresses, and is to be written none the less.
        let is_wrong_head = network != set.network && number == names::HEAD && is_named;
        self.layout.is_there(key, (!is_wrong_head).then_some(there));
        Ok(())
    }
}
