//! What has become of the plan: of endpoints first, which say what rule lists are asked for, of
//! those, which say what sets are, and of the addresses in them.

use std::collections::BTreeSet;

use netqos_core::objects::Pod;
use netqos_core::plan::PeerSet;
use netqos_core::{
    Direction, Elsewhere, EndpointId, Limits, NetworkChoice, NetworkKey, ObjectRef, PlanDelta,
    Problem, Reason,
};

use super::Index;
use crate::chains::ChainKey;
use crate::combinations::Step;
use crate::local::{self, InForce};
use crate::places::{Place, places};
use crate::policies::{self, PolicyKey};

impl Index {
    pub(super) fn settle_pods(&mut self, delta: &mut PlanDelta) {
        let mut new = Vec::new();
        for key in std::mem::take(&mut self.dirty_pods) {
            let mut in_force = InForce::default();
            let entry = self.cluster.pods.get(key);
            if let Some(entry) = entry.filter(|entry| self.local.has(&entry.pod)) {
                let pod = &entry.pod;
                let namespace = &pod.id.name.namespace;
                let policies = self.cluster.policies.selecting(namespace, &pod.labels);
                for place in places(
                    pod,
                    self.local.interfaces(pod),
                    &self.cluster.networks,
                    &self.cluster.namespaces,
                ) {
                    let on_it = |key: &&PolicyKey| {
                        let entry = self.cluster.policies.get(**key);
                        let is_on = |entry: &policies::Entry| {
                            let by_name = entry.policy.networks != NetworkChoice::Default;
                            entry.networks.contains(&place.network) && (by_name || place.is_primary)
                        };
                        entry.is_some_and(is_on) && !self.is_elsewhere(&place.network)
                    };
                    let policies: Vec<_> = policies.iter().filter(on_it).copied().collect();
                    let chain = (!policies.is_empty()).then(|| {
                        let network = place.network.clone();
                        let key = ChainKey { network, policies };
                        self.chains
                            .acquire(key, &mut self.cluster.policies, |id, set| {
                                if self.members.sets.acquire(id, set) {
                                    new.push(id);
                                }
                            })
                    });
                    let problems = &mut in_force.problems;
                    let limits = self.limits(pod, &place, problems);
                    let endpoint = local::endpoint(pod, limits, place, chain.as_ref(), problems);
                    let key = chain.map(|chain| chain.key);
                    match endpoint {
                        Some((id, endpoint)) => {
                            in_force.endpoints.insert(id.clone(), key);
                            delta.endpoints.insert(id, Some(endpoint));
                        }
                        None => key.iter().for_each(|key| self.chains.release(key)),
                    }
                }
            }
            // The new rule lists are taken before the old ones are let go: what they have in
            // common stays.
            let now: BTreeSet<EndpointId> = in_force.endpoints.keys().cloned().collect();
            let before = self.local.put_in_force(key, in_force);
            for (id, chain) in before.endpoints {
                chain.iter().for_each(|chain| self.chains.release(chain));
                if !now.contains(&id) {
                    delta.endpoints.entry(id).or_insert(None);
                }
            }
        }
        let plan = &self.plan.endpoints;
        delta
            .endpoints
            .retain(|id, endpoint| plan.get(id) != endpoint.as_ref());
        for id in new {
            let Some(set) = self.members.sets.get(id).cloned() else {
                continue;
            };
            match &mut self.slices {
                Some(slices) => slices.begin(id, &set, &mut self.members),
                None => {
                    let step = Step::into(id);
                    self.members.take_step(&set, step, &mut self.cluster);
                }
            }
        }
    }

    /// The limits of an interface, as far as no other enforcer has them. Says which of them a quota lowers.
    fn limits(&self, pod: &Pod, place: &Place, problems: &mut Vec<Problem>) -> Limits {
        let mut limit = |direction| {
            let decided = self.decided_at(pod, place, direction)?;
            let is_own = decided.by.is_none();
            // No other enforcer knows what the pod selects.
            let selected = place.recorded.and_then(|it| it.selected.of(direction));
            let is_elsewhere = self.is_limited_elsewhere(direction) && selected.is_none();
            if place.is_first() && is_own && is_elsewhere {
                return None;
            }
            if let Some(quota) = &decided.bounded_by {
                problems.push(Problem {
                    object: ObjectRef::Pod(pod.id.name.clone()),
                    reason: Reason::QuotaExceeded,
                    message: format!(
                        "its {direction} bandwidth on network {} is limited to {}, which NetworkQoSQuota {quota} allows; \
                         it requests more",
                        place.network, decided.limit.rate
                    ),
                });
                return Some(decided.limit);
            }
            let is_delegated = place.recorded.is_some_and(|it| it.is_delegated);
            (place.is_first() || !is_own || !is_delegated).then_some(decided.limit)
        };
        Limits {
            ingress: limit(Direction::Ingress),
            egress: limit(Direction::Egress),
        }
    }

    const fn is_limited_elsewhere(&self, direction: Direction) -> bool {
        match direction {
            Direction::Ingress => self.elsewhere.ingress,
            Direction::Egress => self.elsewhere.egress,
        }
    }

    /// True when somebody else puts policies in force on a network.
    fn is_elsewhere(&self, network: &NetworkKey) -> bool {
        let Elsewhere {
            policies,
            every_policy,
            ..
        } = self.elsewhere;
        let is_theirs = match network {
            NetworkKey::Attachment(name) => self.cluster.networks.is_of_ovn(name),
            // Cluster-wide networks are a kind of OVN-Kubernetes'.
            NetworkKey::Default | NetworkKey::Cluster(_) => true,
        };
        every_policy || (policies && is_theirs)
    }

    pub(super) fn settle_chains(&mut self, delta: &mut PlanDelta) {
        let changes = self.chains.take_changes();
        delta.chains.extend(changes.chains);
        for set in changes.released {
            self.members.sets.release(set);
        }
        for (id, set) in self.members.sets.drop_idle() {
            match &mut self.slices {
                Some(slices) => slices.end(id, &mut self.members),
                None => {
                    let step = Step::out_of(id);
                    self.members.take_step(&set, step, &mut self.cluster);
                }
            }
        }
        for id in self.members.sets.take_touched() {
            let set = self.members.sets.get(id);
            if self.plan.sets.contains_key(&id) != set.is_some() {
                delta.sets.insert(id, set.map(|set| PeerSet::clone(set)));
            }
        }
    }

    pub(super) fn settle_addresses(&mut self, delta: &mut PlanDelta) {
        let (cluster, local, slices) = (&self.cluster, &self.local, &self.slices);
        let pods = &cluster.pods;
        let is_recorded = |key, network: &NetworkKey, address| {
            let Some(entry) = pods.get(key).filter(|_| slices.is_none()) else {
                return false;
            };
            let pod = &entry.pod;
            let (networks, namespaces) = (&cluster.networks, &cluster.namespaces);
            let places = places(pod, local.interfaces(pod), networks, namespaces);
            places.iter().any(|place| {
                place.network == *network
                    && place.recorded.is_some()
                    && place.addresses.contains(&address)
            })
        };
        let combination = |key| match slices {
            Some(slices) => slices.combination(key),
            None => pods.get(key).and_then(|pod| pod.sets),
        };
        self.members
            .settle(combination, is_recorded, |network, address, _, class| {
                let class = class.map(|class| class.id);
                delta.peers.insert(network, address, class);
            });
        for (id, sets) in self.members.classes.take_changes() {
            if self.plan.classes.contains_key(&id) != sets.is_some() {
                delta.classes.insert(id, sets);
            }
        }
    }

    pub(super) fn settle_services(&mut self, delta: &mut PlanDelta) {
        let serving = self.chains.any();
        let mut dirty = self.services.take_dirty();
        if serving != self.serving {
            dirty.extend(self.services.all());
            dirty.extend(self.plan.services.keys());
            self.serving = serving;
        }
        for port in dirty {
            let backends = match serving {
                true => self.services.backends(&port),
                false => BTreeSet::new(),
            };
            let now = (!backends.is_empty()).then_some(backends);
            if self.plan.services.get(&port) != now.as_ref() {
                delta.services.insert(port, now);
            }
        }
    }
}
