//! Which addresses belong to which peer sets.
//!
//! An address belongs to the sets of whoever claims it: pods, where their labels are known, or else
//! the slices in which a controller publishes the addresses of sets.

use std::collections::BTreeSet;
use std::net::IpAddr;

use netqos_core::NetworkKey;
use netqos_core::plan::{PeerSet, SetId};

use crate::addresses::{AddressKey, Addresses, ClaimantKey};
use crate::classes::{Class, Classes};
use crate::cluster::{Cluster, Effects};
use crate::combinations::{CombinationKey, Combinations, Step};
use crate::local::is_on_networks;
use crate::places::places;
use crate::pods::{self, PodKey};
use crate::sets::Sets;
use netqos_core::objects::LocalInterface;

/// The sets that are asked for, and who belongs to them.
#[derive(Debug, Default)]
pub(crate) struct Members {
    pub(crate) sets: Sets,
    pub(crate) combinations: Combinations,
    pub(crate) addresses: Addresses,
    pub(crate) classes: Classes,
}

impl Members {
    /// All pods that may be part of something else by what a change concerns.
    pub(crate) fn concerned(&self, effects: &Effects, cluster: &Cluster) -> BTreeSet<PodKey> {
        let mut pods = effects.pods.clone();
        if let Some(name) = &effects.namespace
            && self.sets.ask_for_namespaces()
        {
            pods.extend(cluster.pods.in_namespace(name));
        }
        pods
    }

    /// Finds out anew what a pod is part of. `found` are its interfaces, where it is on this node.
    pub(crate) fn reconsider(
        &mut self,
        key: PodKey,
        found: &[LocalInterface],
        cluster: &mut Cluster,
    ) {
        let Cluster {
            namespaces,
            networks,
            pods,
            ..
        } = cluster;
        let Some(entry) = pods.get_mut(key) else {
            return;
        };
        let pod = &entry.pod;
        let (mut sets, mut claims) = (Vec::new(), Vec::new());
        if is_on_networks(pod) {
            sets = self
                .sets
                .of(pod, &namespaces.labels(&pod.id.name.namespace));
            for place in places(pod, found, networks, namespaces) {
                let addresses = place.addresses.into_iter();
                claims.extend(addresses.map(|it| self.addresses.key(&place.network, it)));
            }
            claims.sort_unstable();
            claims.dedup();
            claims.shrink_to_fit();
        }
        self.become_part(key, entry, &sets, claims);
    }

    /// A pod left: it is part of nothing any more.
    pub(crate) fn forget(&mut self, key: PodKey, mut entry: pods::Entry) {
        self.become_part(key, &mut entry, &[], Vec::new());
    }

    /// A pod belongs to these sets with these addresses, and to no others.
    fn become_part(
        &mut self,
        key: PodKey,
        entry: &mut pods::Entry,
        sets: &[SetId],
        claims: Vec<AddressKey>,
    ) {
        let before = entry.sets;
        let same_sets = self.combinations.sets(before) == sets;
        if same_sets && entry.claims == claims {
            return;
        }
        if !same_sets {
            entry.sets = self.combinations.acquire(sets);
            self.combinations.release(before);
        }
        for address in &entry.claims {
            let stays = claims.binary_search(address).is_ok();
            if !stays {
                self.addresses.leave(*address, key);
            }
            if before.is_some() && !(stays && same_sets) {
                self.addresses.touch(*address);
            }
        }
        for address in &claims {
            let stayed = entry.claims.binary_search(address).is_ok();
            if !stayed {
                self.addresses.claim(*address, key);
            }
            if entry.sets.is_some() && !(stayed && same_sets) {
                self.addresses.touch(*address);
            }
        }
        entry.claims = claims;
    }

    /// The pods that belong to a set get into it, when it is asked for and was not before, or out
    /// of it.
    pub(crate) fn take_step(&mut self, set: &PeerSet, mut step: Step, cluster: &mut Cluster) {
        for key in cluster.pods.of(set, &cluster.namespaces) {
            let Some(entry) = cluster.pods.get_mut(key) else {
                continue;
            };
            if is_on_networks(&entry.pod) {
                entry.sets = self.combinations.take(&mut step, entry.sets);
                self.addresses.touch_on(&set.network, &entry.claims);
            }
        }
    }

    /// Gives each address its class that may have another one, and says which have: the sets that
    /// it belonged to, and the class of those that it belongs to now. `combination` is the one of
    /// who claims an address. Of several claimants those count that have it by a record, if any has.
    pub(crate) fn settle(
        &mut self,
        combination: impl Fn(ClaimantKey) -> Option<CombinationKey>,
        is_recorded: impl Fn(ClaimantKey, &NetworkKey, IpAddr) -> bool,
        mut changed: impl FnMut(&NetworkKey, IpAddr, &[SetId], Option<&Class>),
    ) {
        let Self {
            sets,
            combinations,
            addresses,
            classes,
        } = self;
        for address in addresses.take_dirty() {
            let Some((network, entry)) = addresses.settling(address) else {
                continue;
            };
            let of_several;
            let class = match entry.claimants() {
                [] => None,
                [one] => combinations.class(combination(*one), network, sets),
                several => {
                    let by_record = several.iter().copied();
                    let by_record: Vec<ClaimantKey> = by_record
                        .filter(|one| is_recorded(*one, network, entry.address))
                        .collect();
                    let several = match by_record.is_empty() {
                        true => several,
                        false => &by_record,
                    };
                    let several = several.iter().filter_map(|one| combination(*one));
                    let all = several.flat_map(|one| combinations.sets(Some(one)));
                    let mut all: Vec<SetId> =
                        all.copied().filter(|id| sets.is_on(*id, network)).collect();
                    all.sort_unstable();
                    all.dedup();
                    of_several = classes.of(&all);
                    of_several.as_ref()
                }
            };
            let now = class.map(|class| class.id);
            if now != entry.class {
                if let Some(class) = class {
                    classes.acquire(class);
                }
                let before = entry.class.and_then(|before| classes.release(before));
                entry.class = now;
                let before = before.as_deref().unwrap_or_default();
                changed(network, entry.address, before, class);
            }
            if entry.claimants().is_empty() {
                addresses.forget(address);
            }
        }
        addresses.settle();
        combinations.settle();
    }
}
