//! The peers of a whole cluster: which addresses belong to which of the sets that policies name.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use netqos_core::plan::{PeerSet, SetId};

use crate::Change;
use crate::cluster::Cluster;
use crate::combinations::Step;
use crate::hash::HashMap;
use crate::members::Members;
use crate::policies::PolicyKey;
use crate::subjects::moved_by;

/// Every peer set that any policy of the cluster names, each resolved once, however many name it.
///
/// It is fed with all namespaces, networks, pods and policies of the cluster, as an
/// [`Index`](crate::Index) is, and says what became of the sets' addresses; it keeps none of them.
/// As there, a change costs what it changes.
///
/// ```
/// # use netqos_index::PeerIndex;
/// let mut peers = PeerIndex::default();
/// assert!(peers.take_changes().is_empty(), "no policy names a set");
/// ```
#[derive(Debug, Default)]
pub struct PeerIndex {
    cluster: Cluster,
    members: Members,
    /// What each policy asks for.
    asked: HashMap<PolicyKey, Vec<SetId>>,
    /// Policies that came, went, or are in force on other networks.
    dirty: BTreeSet<PolicyKey>,
    /// Namespaces whose policies may have other subjects.
    moved: BTreeSet<Arc<str>>,
}

/// What became of the addresses of a peer set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerChange {
    /// The set's name.
    pub id: SetId,
    /// The set.
    pub set: Arc<PeerSet>,
    /// Addresses that are not in it any more.
    pub gone: Vec<IpAddr>,
    /// Addresses that are in it now. None of them is gone, too.
    pub new: Vec<IpAddr>,
}

impl PeerIndex {
    /// Takes note of a change. Objects that do not decide who is a peer are passed over.
    pub fn apply(&mut self, change: Change) {
        self.moved.extend(moved_by(&change, &self.cluster));
        let effects = self.cluster.apply(change);
        let pods = self.members.concerned(&effects, &self.cluster);
        if let Some((key, entry)) = effects.pod_left {
            self.members.forget(key, entry);
        }
        for key in pods {
            self.members.reconsider(key, &[], &mut self.cluster);
        }
        self.dirty
            .extend(effects.policy_left.iter().map(|(key, _)| *key));
        self.dirty.extend(effects.policies);
    }

    /// What has become of the sets since the last time, by their names. All changes in between are
    /// taken together: an address that left a set and came back is not in it. A set that nobody
    /// names any more loses all its addresses.
    pub fn take_changes(&mut self) -> Vec<PeerChange> {
        let mut sets = self.settle_sets();
        let Self {
            cluster, members, ..
        } = self;
        let mut changed: Vec<(SetId, IpAddr, bool)> = Vec::new();
        let combination = |key| cluster.pods.get(key).and_then(|pod| pod.sets);
        members.settle(combination, |(_, address), before, now| {
            let now = now.map_or(&[][..], |class| &class.sets);
            let left = before.iter().filter(|id| now.binary_search(id).is_err());
            changed.extend(left.map(|id| (*id, *address, false)));
            let entered = now.iter().filter(|id| before.binary_search(id).is_err());
            changed.extend(entered.map(|id| (*id, *address, true)));
        });
        members.classes.take_changes();
        cluster.settle();
        changed.sort_unstable();
        let mut changes: Vec<PeerChange> = Vec::new();
        for of_set in changed.chunk_by(|(a, ..), (b, ..)| a == b) {
            let [(id, ..), ..] = *of_set else {
                continue;
            };
            let Some(set) = members.sets.get(id).cloned().or_else(|| sets.remove(&id)) else {
                continue;
            };
            let those = |new: bool| {
                let those = of_set.iter().filter(move |(.., is_new)| *is_new == new);
                those.map(|(_, address, _)| *address).collect()
            };
            changes.push(PeerChange {
                id,
                set,
                gone: those(false),
                new: those(true),
            });
        }
        changes
    }

    /// How many sets policies name, as of the last [`PeerIndex::take_changes`].
    pub fn sets(&self) -> usize {
        self.members.sets.len()
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    pub(crate) fn moved(&mut self) -> &mut BTreeSet<Arc<str>> {
        &mut self.moved
    }

    /// Asks for the sets that policies name now. Gives back those that none names any more.
    fn settle_sets(&mut self) -> BTreeMap<SetId, Arc<PeerSet>> {
        let (mut new, mut released) = (Vec::new(), Vec::new());
        for key in std::mem::take(&mut self.dirty) {
            let sets = self.cluster.policies.sets(key);
            for (id, set) in &sets {
                if self.members.sets.acquire(*id, set) {
                    new.push((*id, set.clone()));
                }
            }
            let before = match sets.is_empty() {
                true => self.asked.remove(&key),
                false => self.asked.insert(key, sets.into_keys().collect()),
            };
            released.extend(before.into_iter().flatten());
        }
        // What is asked for anew is taken before what was is let go: what both name stays.
        for id in released {
            self.members.sets.release(id);
        }
        for (id, set) in new {
            let step = Step::into(id);
            self.members.take_step(&set, step, &mut self.cluster);
        }
        let idle = self.members.sets.drop_idle();
        for (id, set) in &idle {
            let step = Step::out_of(*id);
            self.members.take_step(set, step, &mut self.cluster);
        }
        self.members.sets.take_touched();
        idle.into_iter().collect()
    }
}
