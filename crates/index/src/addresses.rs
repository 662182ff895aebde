//! The addresses of peers: who claims one, and which class it has in the plan.
//!
//! While a pod is on its way out and another has its address already, both may say that it is
//! theirs: the address then belongs to the sets of both, whichever was heard of first, until one of
//! them leaves.

use std::collections::BTreeSet;
use std::hash::BuildHasher as _;
use std::net::IpAddr;

use hashbrown::HashTable;
use netqos_core::NetworkKey;
use netqos_core::plan::ClassId;

use crate::hash::RandomState;
use crate::numbered::Numbered;
use crate::slab::Slab;

/// An address as long as it is claimed, or in the plan.
pub(crate) type AddressKey = u32;

/// Who claims addresses: a pod, or a slice of a set.
pub(crate) type ClaimantKey = u32;

/// The addresses of all pods, or of all slices that count. There may be as many as the cluster has
/// pods, so that each has its network by a number, and is itself what finds it.
#[derive(Debug, Default)]
pub(crate) struct Addresses {
    entries: Slab<Entry>,
    by_value: HashTable<AddressKey>,
    hasher: RandomState,
    networks: Numbered<NetworkKey>,
    /// Those whose class may have become another, each once.
    dirty: Vec<AddressKey>,
}

/// An address on a network.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) address: IpAddr,
    network: u32,
    /// As it was settled last.
    pub(crate) class: Option<ClassId>,
    claimants: Claimants,
    dirty: bool,
}

/// Almost always one.
#[derive(Debug)]
enum Claimants {
    One([ClaimantKey; 1]),
    #[expect(
        clippy::box_collection,
        reason = "so seldom that it should take no room"
    )]
    Other(Box<Vec<ClaimantKey>>),
}

impl Addresses {
    /// The key of an address that may be claimed.
    pub(crate) fn key(&mut self, network: &NetworkKey, address: IpAddr) -> AddressKey {
        if let Some(known) = self.find(network, address) {
            return known;
        }
        let number = self.networks.acquire(network);
        let hash = self.hasher.hash_one((number, address));
        let key = self.entries.insert(Entry {
            address,
            network: number,
            class: None,
            claimants: Claimants::Other(Box::default()),
            dirty: false,
        });
        let (entries, hasher) = (&self.entries, &self.hasher);
        let hash_of = |key: &AddressKey| {
            let entry = entries.get(*key);
            entry.map_or(0, |entry| hasher.hash_one(entry.value()))
        };
        self.by_value.insert_unique(hash, key, hash_of);
        key
    }

    /// The key of an address that is claimed, or in the plan.
    pub(crate) fn find(&self, network: &NetworkKey, address: IpAddr) -> Option<AddressKey> {
        let value = (self.networks.find(network)?, address);
        let is_it = |key: &AddressKey| self.entries.get(*key).is_some_and(|it| it.value() == value);
        let found = self.by_value.find(self.hasher.hash_one(value), is_it);
        found.copied()
    }

    /// Somebody claims an address; each claims one once.
    pub(crate) fn claim(&mut self, address: AddressKey, by: ClaimantKey) {
        if let Some(entry) = self.entries.get_mut(address) {
            entry.claimants = match &mut entry.claimants {
                Claimants::One([one]) => Claimants::Other(Box::new(vec![*one, by])),
                Claimants::Other(none) if none.is_empty() => Claimants::One([by]),
                Claimants::Other(several) => {
                    several.push(by);
                    return;
                }
            };
        }
    }

    /// Somebody claims it no more. One that nobody claims is among [`Addresses::take_dirty`].
    pub(crate) fn leave(&mut self, address: AddressKey, by: ClaimantKey) {
        let Some(entry) = self.entries.get_mut(address) else {
            return;
        };
        match &mut entry.claimants {
            Claimants::One(_) => {
                entry.claimants = Claimants::Other(Box::default());
                self.touch(address);
            }
            Claimants::Other(several) => {
                several.retain(|other| *other != by);
                if let [one] = several[..] {
                    entry.claimants = Claimants::One([one]);
                }
            }
        }
    }

    /// The class of this address may become another.
    pub(crate) fn touch(&mut self, address: AddressKey) {
        if let Some(entry) = self.entries.get_mut(address)
            && !std::mem::replace(&mut entry.dirty, true)
        {
            self.dirty.push(address);
        }
    }

    /// That of those among these addresses that are on this network.
    pub(crate) fn touch_on(&mut self, network: &NetworkKey, addresses: &[AddressKey]) {
        let Some(network) = self.networks.find(network) else {
            return;
        };
        for address in addresses {
            let entry = self.entries.get(*address);
            if entry.is_some_and(|entry| entry.network == network) {
                self.touch(*address);
            }
        }
    }

    /// Those whose class may have become another, or that nobody claims any more.
    pub(crate) fn take_dirty(&mut self) -> Vec<AddressKey> {
        std::mem::take(&mut self.dirty)
    }

    /// One of [`Addresses::take_dirty`] that is given its class now, with its network.
    pub(crate) fn settling(&mut self, address: AddressKey) -> Option<(&NetworkKey, &mut Entry)> {
        let entry = self.entries.get_mut(address)?;
        entry.dirty = false;
        Some((self.networks.get(entry.network)?, entry))
    }

    /// Forgets an address that nobody claims, and that is not in the plan.
    pub(crate) fn forget(&mut self, address: AddressKey) {
        let Some(entry) = self.entries.remove(address) else {
            return;
        };
        let hash = self.hasher.hash_one(entry.value());
        if let Ok(found) = self.by_value.find_entry(hash, |key| *key == address) {
            found.remove();
        }
        self.networks.release(entry.network);
    }

    /// Keys of forgotten addresses may be given to others from now on.
    pub(crate) fn settle(&mut self) {
        self.entries.settle();
        self.networks.settle();
    }
}

impl Entry {
    fn value(&self) -> (u32, IpAddr) {
        (self.network, self.address)
    }

    /// Who claims it.
    pub(crate) fn claimants(&self) -> &[ClaimantKey] {
        match &self.claimants {
            Claimants::One(one) => one,
            Claimants::Other(other) => other,
        }
    }
}

/// Addresses as packets have them: `::ffff:10.0.0.1` is 10.0.0.1, as for Kubernetes and the kernel.
pub(crate) fn canonical(addresses: &mut BTreeSet<IpAddr>) {
    if addresses
        .iter()
        .any(|address| *address != address.to_canonical())
    {
        let written = std::mem::take(addresses).into_iter();
        *addresses = written.map(|address| address.to_canonical()).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_nobody_claims_is_forgotten() {
        let mut addresses = Addresses::default();
        let (network, address) = (NetworkKey::Default, IpAddr::from([10, 0, 0, 1]));
        let key = addresses.key(&network, address);
        assert_eq!(addresses.key(&network, address), key);
        let other = NetworkKey::Cluster("blue".into());
        assert_eq!(addresses.find(&other, address), None);
        let mut claimants = |change: fn(&mut Addresses, AddressKey)| {
            change(&mut addresses, key);
            let dirty = addresses.take_dirty();
            let claimants = addresses.settling(key).unwrap().1.claimants().len();
            (claimants, dirty.len())
        };
        assert_eq!(claimants(|all, key| all.claim(key, 1)), (1, 0));
        assert_eq!(claimants(|all, key| all.claim(key, 2)), (2, 0));
        assert_eq!(claimants(|all, key| all.claim(key, 3)), (3, 0));
        assert_eq!(claimants(|all, key| all.leave(key, 1)), (2, 0));
        assert_eq!(claimants(|all, key| all.leave(key, 3)), (1, 0));
        assert_eq!(claimants(|all, key| all.leave(key, 2)), (0, 1));
        addresses.forget(key);
        assert!(addresses.by_value.is_empty());
        assert_eq!(addresses.entries.iter().count(), 0);
        assert_eq!(addresses.networks.find(&network), None);
    }

    /// A node has one for each pod of the cluster that its rules go to.
    #[test]
    fn an_address_takes_little() {
        assert!(size_of::<Option<Entry>>() <= 56);
    }
}
