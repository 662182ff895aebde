//! What of the cluster has to be known for what policies say, and for what is in force of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use netqos_core::plan::SetId;
use netqos_index::Served;

use super::Gate;

/// What has to be known.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Wanted {
    /// The namespaces that policies matter of.
    pub(in super::super) namespaces: BTreeSet<Arc<str>>,
    /// Sets, by the namespace in which they are published.
    pub(in super::super) sets: BTreeMap<Arc<str>, BTreeSet<SetId>>,
    /// The namespaces that Services matter of.
    pub(in super::super) served: Served,
}

impl Gate {
    /// What has to be known now.
    pub(in super::super) fn wanted(&mut self) -> &Wanted {
        let names = self.pods.keys();
        self.wanted.namespaces = names.map(|name| name.namespace.clone()).collect();
        &self.wanted
    }

    pub(super) fn find_wanted(&mut self) {
        let mut sets: BTreeMap<Arc<str>, BTreeSet<SetId>> = BTreeMap::new();
        let mut policies = Vec::new();
        for entry in self.policies.values().filter(|entry| entry.selects) {
            let versions = || entry.released.iter().chain(&entry.remembered);
            let all = versions().map(|it| &it.names).chain([&entry.names]);
            for (id, set) in all.flatten() {
                let home = set.home(&self.controller).clone();
                sets.entry(home).or_default().insert(*id);
            }
            policies.extend(versions().map(|it| &it.policy).chain(&entry.told));
        }
        self.wanted.served = self.sets.served(policies);
        self.wanted.sets = sets;
    }
}
