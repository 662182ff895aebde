//! Which peer sets each policy names.

use std::collections::BTreeMap;
use std::sync::Arc;

use netqos_core::plan::{PeerSet, SetId};
use netqos_core::{ObjectName, Policy};

use crate::cluster::Cluster;
use crate::{Change, Served};

/// The peer sets of policies, on every network that each is in force on.
///
/// It is fed with policies and with what decides which networks they are in force on, and whether
/// they are: networks, namespaces and quotas. With them an agent finds out what it has to know
/// before an [`Index`](crate::Index) of [`PeerSource::Slices`](crate::PeerSource::Slices) is told of
/// a policy.
#[derive(Debug, Default)]
pub struct PolicySets {
    cluster: Cluster,
}

impl PolicySets {
    /// Takes note of a change. Objects that do not decide what policies name are passed over.
    pub fn apply(&mut self, change: Change) {
        if !matches!(change, Change::Pod(_) | Change::PodGone(_)) {
            self.cluster.apply(change);
        }
    }

    /// The sets that the policy of this name refers to. None where no policy has the name, or where
    /// quotas keep it out.
    pub fn of(&self, policy: &ObjectName) -> BTreeMap<SetId, Arc<PeerSet>> {
        let key = self.cluster.policies.find(policy);
        key.map(|key| self.cluster.policies.sets(key))
            .unwrap_or_default()
    }

    /// Behind the Services of which namespaces those are that these policies mean.
    pub fn served<'p>(&self, policies: impl IntoIterator<Item = &'p Policy>) -> Served {
        let mut served = Served::default();
        for policy in policies {
            served.add(policy, &self.cluster.namespaces);
        }
        served
    }

    /// Those that a policy would refer to, in place of whichever has its name.
    pub fn of_version(&mut self, policy: Policy) -> BTreeMap<SetId, Arc<PeerSet>> {
        let name = policy.name.clone();
        let key = self.cluster.policies.find(&name);
        let known = key.and_then(|key| self.cluster.policies.get(key));
        let known = known.map(|entry| entry.policy.clone());
        self.apply(Change::Policy(policy));
        let sets = self.of(&name);
        self.apply(match known {
            Some(known) => Change::Policy(known),
            None => Change::PolicyGone(name),
        });
        sets
    }
}
