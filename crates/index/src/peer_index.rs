//! The peers of a whole cluster: which addresses belong to which of the sets that policies name.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use netqos_core::NetworkKey;
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

/// What became of a peer set: it is named by a policy now, or by none any more, or it has other
/// addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerChange {
    /// The set's name.
    pub id: SetId,
    /// The set.
    pub set: Arc<PeerSet>,
    /// True while any policy names it, also when nobody belongs to it.
    pub named: bool,
    /// Addresses that are not in it any more.
    pub gone: Vec<IpAddr>,
    /// Addresses that are in it now. None of them is gone, too.
    pub new: Vec<IpAddr>,
}

/// Sets with their names.
type Named = Vec<(SetId, Arc<PeerSet>)>;

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
    /// names any more loses all its addresses; one that is named for the first time is in it even
    /// when it has none, since agents wait until they hear of it.
    pub fn take_changes(&mut self) -> Vec<PeerChange> {
        let (came, went) = self.settle_sets();
        let Self {
            cluster, members, ..
        } = self;
        let mut changed: Vec<(SetId, IpAddr, bool)> = Vec::new();
        let combination = |key| cluster.pods.get(key).and_then(|pod| pod.sets);
        // Nodes have records.
        let is_recorded = |_, _: &NetworkKey, _| false;
        members.settle(combination, is_recorded, |_, address, before, now| {
            let now = now.map_or(&[][..], |class| &class.sets);
            let left = before.iter().filter(|id| now.binary_search(id).is_err());
            changed.extend(left.map(|id| (*id, address, false)));
            let entered = now.iter().filter(|id| before.binary_search(id).is_err());
            changed.extend(entered.map(|id| (*id, address, true)));
        });
        members.classes.take_changes();
        cluster.settle();
        changed.sort_unstable();
        let change = |id: SetId, set: Arc<PeerSet>| PeerChange {
            id,
            set,
            named: members.sets.get(id).is_some(),
            gone: Vec::new(),
            new: Vec::new(),
        };
        let touched = came.into_iter().chain(went);
        let mut changes: BTreeMap<SetId, PeerChange> =
            touched.map(|(id, set)| (id, change(id, set))).collect();
        for (id, address, is_new) in changed {
            let of_set = match changes.entry(id) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => match members.sets.get(id) {
                    Some(set) => entry.insert(change(id, set.clone())),
                    None => continue,
                },
            };
            match is_new {
                true => of_set.new.push(address),
                false => of_set.gone.push(address),
            }
        }
        changes.into_values().collect()
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

    /// Asks for the sets that policies name now. Gives back those that none named before, and those
    /// that none names any more.
    fn settle_sets(&mut self) -> (Named, Named) {
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
        for (id, set) in &new {
            let step = Step::into(*id);
            self.members.take_step(set, step, &mut self.cluster);
        }
        let idle = self.members.sets.drop_idle();
        for (id, set) in &idle {
            let step = Step::out_of(*id);
            self.members.take_step(set, step, &mut self.cluster);
        }
        self.members.sets.take_touched();
        (new, idle)
    }
}
