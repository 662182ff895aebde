//! What has become of the plan: of endpoints first, which say what rule lists are asked for, of
//! those, which say what sets are, and of the addresses in them.

use std::collections::BTreeSet;

use netqos_core::plan::{PeerSet, SetId};
use netqos_core::{EndpointId, PlanDelta};

use super::Index;
use crate::chains::ChainKey;
use crate::classes::Class;
use crate::combinations::Step;
use crate::local::{self, InForce};
use crate::places::places;
use crate::policies::PolicyKey;

impl Index {
    pub(super) fn settle_pods(&mut self, delta: &mut PlanDelta) {
        let mut new = Vec::new();
        for key in std::mem::take(&mut self.dirty_pods) {
            let mut in_force = InForce::default();
            let entry = self.pods.get(key);
            if let Some(entry) = entry.filter(|entry| self.local.has(&entry.pod)) {
                let pod = &entry.pod;
                let namespace = &pod.id.name.namespace;
                let policies = self.policies.selecting(namespace, &pod.labels);
                for place in places(pod, self.local.interfaces(pod), &self.networks) {
                    let on_it = |key: &&PolicyKey| {
                        let entry = self.policies.get(**key);
                        entry.is_some_and(|entry| entry.networks.contains(&place.network))
                    };
                    let policies: Vec<_> = policies.iter().filter(on_it).copied().collect();
                    let chain = (!policies.is_empty()).then(|| {
                        let network = place.network.clone();
                        let key = ChainKey { network, policies };
                        self.chains.acquire(key, &mut self.policies, |id, set| {
                            if self.sets.acquire(id, set) {
                                new.push(id);
                            }
                        })
                    });
                    let problems = &mut in_force.problems;
                    let endpoint = local::endpoint(pod, place, chain.as_ref(), problems);
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
            if let Some(set) = self.sets.get(id).cloned() {
                self.take_step(&set, Step::into(id));
            }
        }
    }

    pub(super) fn settle_chains(&mut self, delta: &mut PlanDelta) {
        let changes = self.chains.take_changes();
        delta.chains.extend(changes.chains);
        for set in changes.released {
            self.sets.release(set);
        }
        for (id, set) in self.sets.drop_idle() {
            self.take_step(&set, Step::out_of(id));
        }
        for id in self.sets.take_touched() {
            let set = self.sets.get(id);
            if self.plan.sets.contains_key(&id) != set.is_some() {
                delta.sets.insert(id, set.map(|set| PeerSet::clone(set)));
            }
        }
    }

    pub(super) fn settle_addresses(&mut self, delta: &mut PlanDelta) {
        let mut changed = Vec::new();
        for address in self.addresses.take_dirty() {
            let Some(entry) = self.addresses.settling(address) else {
                continue;
            };
            let network = &entry.value.0;
            let of_several;
            let class = match entry.claimants() {
                [] => None,
                [pod] => {
                    let combination = self.pods.get(*pod).and_then(|pod| pod.sets);
                    self.combinations.class(combination, network, &self.sets)
                }
                several => {
                    let of_pods = several.iter().filter_map(|pod| self.pods.get(*pod));
                    let all = of_pods.flat_map(|pod| self.combinations.sets(pod.sets));
                    let all = all.copied().filter(|id| self.sets.is_on(*id, network));
                    let all: BTreeSet<SetId> = all.collect();
                    of_several = Class::of(all.into_iter().collect::<Vec<_>>());
                    of_several.as_ref()
                }
            };
            let now = class.map(|class| class.id);
            if now != entry.class {
                if let Some(class) = class {
                    self.classes.acquire(class);
                }
                if let Some(before) = entry.class {
                    self.classes.release(before);
                }
                entry.class = now;
                changed.push((entry.value.clone(), now));
            }
            if entry.claimants().is_empty() {
                self.addresses.forget(address);
            }
        }
        delta.peers = changed.into_iter().collect();
        for (id, sets) in self.classes.take_changes() {
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
