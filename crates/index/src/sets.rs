//! The peer sets that are asked for, by chains in force or by policies, found by the pods that belong
//! to them.

use std::collections::BTreeSet;
use std::sync::Arc;

use netqos_core::objects::Pod;
use netqos_core::plan::{PeerSet, Scope, SetId};
use netqos_core::{LabelSelector, Labels, NetworkKey, Operator};

use crate::anchors::Anchors;
use crate::hash::HashMap;

/// The sets that are asked for.
#[derive(Debug, Default)]
pub(crate) struct Sets {
    live: HashMap<SetId, Live>,
    /// Those of one namespace, by the labels of pods.
    in_namespace: HashMap<Arc<str>, Anchors<SetId>>,
    /// Those of several namespaces, either by the labels of pods or by those of namespaces.
    by_pod: Anchors<SetId>,
    by_namespace: Anchors<SetId>,
    /// Sets that came or went since they were asked for.
    touched: BTreeSet<SetId>,
}

#[derive(Debug)]
struct Live {
    set: Arc<PeerSet>,
    users: usize,
}

impl Sets {
    /// One more asks for this set. True when it is the first: the pods that belong to it are
    /// to be looked for.
    pub(crate) fn acquire(&mut self, id: SetId, set: &Arc<PeerSet>) -> bool {
        if let Some(live) = self.live.get_mut(&id) {
            live.users += 1;
            self.touched.insert(id);
            return false;
        }
        let PeerSet {
            namespaces, pods, ..
        } = &**set;
        match namespaces {
            Scope::Namespace(name) => {
                let anchors = self.in_namespace.entry(name.clone()).or_default();
                anchors.insert(pods, id);
            }
            Scope::Matching(namespaces) if self.by_namespace_is_better(namespaces, pods) => {
                self.by_namespace.insert(namespaces, id);
            }
            Scope::Matching(_) => self.by_pod.insert(pods, id),
        }
        let live = Live {
            set: set.clone(),
            users: 1,
        };
        self.live.insert(id, live);
        self.touched.insert(id);
        true
    }

    /// One less asks for this set. It stays until [`Sets::drop_idle`].
    pub(crate) fn release(&mut self, id: SetId) {
        if let Some(live) = self.live.get_mut(&id) {
            live.users -= 1;
            self.touched.insert(id);
        }
    }

    /// Forgets the sets that nobody asks for any more, and says which.
    pub(crate) fn drop_idle(&mut self) -> Vec<(SetId, Arc<PeerSet>)> {
        let idle = |id: &&SetId| self.live.get(*id).is_some_and(|live| live.users == 0);
        let idle: Vec<SetId> = self.touched.iter().filter(idle).copied().collect();
        idle.into_iter()
            .filter_map(|id| Some((id, self.forget(id)?)))
            .collect()
    }

    /// The sets that may have come or gone.
    pub(crate) fn take_touched(&mut self) -> BTreeSet<SetId> {
        std::mem::take(&mut self.touched)
    }

    /// How many are asked for.
    pub(crate) fn len(&self) -> usize {
        self.live.len()
    }

    pub(crate) fn get(&self, id: SetId) -> Option<&Arc<PeerSet>> {
        self.live.get(&id).map(|live| &live.set)
    }

    /// True when a set is of this network.
    pub(crate) fn is_on(&self, id: SetId, network: &NetworkKey) -> bool {
        self.get(id).is_some_and(|set| set.network == *network)
    }

    /// True when any set's pods depend on the labels of namespaces.
    pub(crate) fn ask_for_namespaces(&self) -> bool {
        !self.by_pod.is_empty() || !self.by_namespace.is_empty()
    }

    /// The sets that a pod in a namespace of these labels belongs to, sorted.
    pub(crate) fn of(&self, pod: &Pod, namespace: &Labels) -> Vec<SetId> {
        let own = self.in_namespace.get(&pod.id.name.namespace);
        let own = own
            .into_iter()
            .flat_map(|anchors| anchors.candidates(&pod.labels));
        let mut sets: Vec<SetId> = own
            .chain(self.by_pod.candidates(&pod.labels))
            .chain(self.by_namespace.candidates(namespace))
            .filter(|id| self.get(*id).is_some_and(|set| has(set, pod, namespace)))
            .collect();
        sets.sort_unstable();
        sets
    }

    fn by_namespace_is_better(&self, namespaces: &LabelSelector, pods: &LabelSelector) -> bool {
        let one_by_name = namespaces.requirements().iter().any(|requirement| {
            &*requirement.key == crate::namespaces::NAME_LABEL
                && matches!(requirement.operator, Operator::In(_))
        });
        let by_namespace = self.by_namespace.crowd(namespaces);
        match (by_namespace, self.by_pod.crowd(pods)) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(a), Some(b)) => one_by_name && a < 64 || a < b,
        }
    }

    fn forget(&mut self, id: SetId) -> Option<Arc<PeerSet>> {
        let set = self.live.remove(&id)?.set;
        match &set.namespaces {
            Scope::Namespace(name) => {
                if let Some(anchors) = self.in_namespace.get_mut(name) {
                    anchors.remove(&set.pods, id);
                    if anchors.is_empty() {
                        self.in_namespace.remove(name);
                    }
                }
            }
            Scope::Matching(namespaces) => {
                self.by_pod.remove(&set.pods, id);
                self.by_namespace.remove(namespaces, id);
            }
        }
        Some(set)
    }
}

/// True when a set has a pod, whatever its networks.
pub(crate) fn has(set: &PeerSet, pod: &Pod, namespace: &Labels) -> bool {
    let there = match &set.namespaces {
        Scope::Namespace(name) => pod.id.name.namespace == *name,
        Scope::Matching(selector) => selector.matches(namespace),
    };
    there && set.pods.matches(&pod.labels)
}
