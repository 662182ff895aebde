//! The index: what is known, and what of it has changed since it was asked last.

use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use netqos_core::objects::{ClusterNetwork, NetworkDefinition, NetworkName, Pod};
use netqos_core::plan::SetId;
use netqos_core::{EndpointId, NetworkKey, NodePlan, ObjectName, PlanDelta, PodId, Policy};

use crate::Change;
use crate::addresses::Addresses;
use crate::chains::{ChainKey, Chains};
use crate::classes::Classes;
use crate::intern::Interner;
use crate::local::{self, Attached, InForce, Local, is_on_networks};
use crate::namespaces::Namespaces;
use crate::networks::Networks;
use crate::places::places;
use crate::pods::{PodKey, Pods};
use crate::policies::{Policies, PolicyKey};
use crate::references::References;
use crate::services::Services;
use crate::sets::Sets;

/// What policies mean on one node. See the [crate] for how it is used.
#[derive(Debug)]
pub struct Index {
    pub(crate) local: Local,
    pub(crate) namespaces: Namespaces,
    pub(crate) networks: Networks,
    pub(crate) references: References,
    pub(crate) policies: Policies,
    pub(crate) pods: Pods,
    pub(crate) services: Services,
    strings: Interner,
    addresses: Addresses,
    sets: Sets,
    chains: Chains,
    classes: Classes,
    /// Virtual addresses matter, because a chain is in force.
    serving: bool,
    /// Pods whose endpoints may have become others, and addresses whose classes may.
    dirty_pods: BTreeSet<PodKey>,
    dirty_addresses: HashSet<(NetworkKey, IpAddr)>,
    plan: NodePlan,
}

/// An interface that a policy is in force on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Selected {
    /// Whose it is.
    pub pod: PodId,
    /// Which one, as in [`NodePlan::endpoints`].
    pub endpoint: EndpointId,
}

impl Index {
    /// An index for the node of this name that knows of nothing.
    pub fn for_node(name: &str) -> Self {
        Self {
            local: Local::new(name),
            namespaces: Namespaces::default(),
            networks: Networks::default(),
            references: References::default(),
            policies: Policies::default(),
            pods: Pods::default(),
            services: Services::default(),
            strings: Interner::default(),
            addresses: Addresses::default(),
            sets: Sets::default(),
            chains: Chains::default(),
            classes: Classes::default(),
            serving: false,
            dirty_pods: BTreeSet::new(),
            dirty_addresses: HashSet::new(),
            plan: NodePlan::default(),
        }
    }

    /// Takes note of a change.
    pub fn apply(&mut self, change: Change) {
        match change {
            Change::Namespace(namespace) => {
                let (mut name, mut labels) = (namespace.name, namespace.labels);
                self.strings.string(&mut name);
                self.strings.labels(&mut labels);
                if self.namespaces.put(name.clone(), labels) {
                    self.namespace_changed(&name);
                }
            }
            Change::NamespaceGone(name) => {
                if self.namespaces.remove(&name) {
                    self.namespace_changed(&name);
                }
            }
            Change::Pod(pod) => self.put_pod(pod),
            Change::PodGone(id) => {
                let key = self.pods.find(&id.name);
                let same = |key: &PodKey| self.pods.get(*key).is_some_and(|it| it.pod.id == id);
                if let Some(key) = key.filter(same) {
                    self.remove_pod(key);
                }
            }
            Change::NetworkDefinition(definition) => {
                let after = definition.clone();
                let before = self.networks.define(definition);
                self.definition_changed(before.as_ref(), Some(&after));
            }
            Change::NetworkDefinitionGone(name) => {
                let before = self.networks.undefine(&name);
                self.definition_changed(before.as_ref(), None);
            }
            Change::ClusterNetwork(network) => {
                self.cluster_changed(&network.name, Some(&network));
                self.networks.put_cluster(network);
            }
            Change::ClusterNetworkGone(name) => {
                self.cluster_changed(&name, None);
                self.networks.remove_cluster(&name);
            }
            Change::Policy(policy) => self.put_policy(policy),
            Change::PolicyGone(name) => {
                if let Some(key) = self.policies.find(&name) {
                    self.remove_policy(key);
                }
            }
            Change::Service(service) => self.services.put(service),
            Change::ServiceGone(name) => self.services.remove(&name),
            Change::EndpointSlice(slice) => self.services.put_slice(slice),
            Change::EndpointSliceGone(name) => self.services.remove_slice(&name),
            Change::Attachments {
                pod,
                uid,
                interfaces,
            } => {
                let key = self.pods.find(&pod);
                if self.local.attach(pod, Attached { uid, interfaces })
                    && let Some(key) = key
                {
                    self.reconsider(key);
                }
            }
        }
    }

    /// What has become of the plan since the last time. [`Index::plan`] has it in it afterwards.
    pub fn take_delta(&mut self) -> PlanDelta {
        let mut delta = PlanDelta::default();
        self.settle_pods(&mut delta);
        self.settle_chains(&mut delta);
        self.settle_addresses(&mut delta);
        self.settle_services(&mut delta);
        self.pods.settle();
        self.plan.apply(&delta);
        delta
    }

    /// The plan as of the last [`Index::take_delta`].
    pub fn plan(&self) -> &NodePlan {
        &self.plan
    }

    /// The interfaces of this node's pods that a policy is in force on, sorted, as of the last
    /// [`Index::take_delta`].
    pub fn selected(&self, policy: &ObjectName) -> Vec<Selected> {
        let Some(key) = self.policies.find(policy) else {
            return Vec::new();
        };
        let mut selected = Vec::new();
        for pod in self.local.in_namespace(&policy.namespace) {
            let (Some(entry), Some(in_force)) = (self.pods.get(pod), self.local.in_force(pod))
            else {
                continue;
            };
            for (endpoint, chain) in &in_force.endpoints {
                if chain
                    .as_ref()
                    .is_some_and(|chain| chain.policies.contains(&key))
                {
                    selected.push(Selected {
                        pod: entry.pod.id.clone(),
                        endpoint: endpoint.clone(),
                    });
                }
            }
        }
        selected.sort();
        selected
    }

    fn put_pod(&mut self, mut pod: Pod) {
        self.strings.string(&mut pod.id.name.namespace);
        self.strings.labels(&mut pod.labels);
        if let Some(node) = &mut pod.node {
            self.strings.string(node);
        }
        let known = self.pods.find(&pod.id.name);
        let key = match known.and_then(|key| Some((key, &self.pods.get(key)?.pod))) {
            Some((_, known)) if *known == pod => return,
            Some((key, known)) if known.id == pod.id => {
                self.pods.replace(key, pod);
                key
            }
            Some((key, _)) => {
                self.remove_pod(key);
                self.pods.insert(pod)
            }
            None => self.pods.insert(pod),
        };
        self.reconsider(key);
    }

    fn remove_pod(&mut self, key: PodKey) {
        let Some(entry) = self.pods.get(key) else {
            return;
        };
        let namespace = entry.pod.id.name.namespace.clone();
        if self.local.enlist(key, &namespace, false) {
            self.dirty_pods.insert(key);
        }
        self.become_part(key, Vec::new(), Vec::new());
        self.pods.remove(key);
    }

    /// Finds out anew what a pod is part of.
    fn reconsider(&mut self, key: PodKey) {
        let Some(entry) = self.pods.get(key) else {
            return;
        };
        let pod = &entry.pod;
        let namespace = pod.id.name.namespace.clone();
        let here = self.local.has(pod);
        let (mut sets, mut claims) = (Vec::new(), Vec::new());
        if is_on_networks(pod) {
            sets = self.sets.of(pod, &self.namespaces.labels(&namespace));
            let interfaces = self.local.interfaces(pod);
            for place in places(pod, interfaces, &self.networks) {
                let network = place.network;
                let addresses = place.addresses.into_iter();
                claims.extend(addresses.map(|address| (network.clone(), address)));
            }
            claims.sort();
            claims.dedup();
            claims.shrink_to_fit();
        }
        self.become_part(key, sets, claims);
        if self.local.enlist(key, &namespace, here) {
            self.dirty_pods.insert(key);
        }
    }

    /// A pod belongs to these sets with these addresses, and to no others.
    fn become_part(&mut self, key: PodKey, sets: Vec<SetId>, claims: Vec<(NetworkKey, IpAddr)>) {
        let Some(entry) = self.pods.get_mut(key) else {
            return;
        };
        if entry.sets == sets && entry.claims == claims {
            return;
        }
        for address in &entry.claims {
            if claims.binary_search(address).is_err() {
                self.addresses.leave(address, key);
            }
            if !entry.sets.is_empty() {
                self.dirty_addresses.insert(address.clone());
            }
        }
        for address in &claims {
            if entry.claims.binary_search(address).is_err() {
                self.addresses.claim(address.clone(), key);
            }
            if !sets.is_empty() {
                self.dirty_addresses.insert(address.clone());
            }
        }
        entry.sets = sets;
        entry.claims = claims;
    }

    fn namespace_changed(&mut self, name: &Arc<str>) {
        let networks = &self.networks;
        let changed = self
            .references
            .namespace_changed(name, networks, &self.namespaces);
        self.networks_changed(changed);
        if self.sets.ask_for_namespaces() {
            for key in self.pods.in_namespace(name).collect::<Vec<_>>() {
                self.reconsider(key);
            }
        }
    }

    fn definition_changed(
        &mut self,
        before: Option<&NetworkDefinition>,
        after: Option<&NetworkDefinition>,
    ) {
        if before == after {
            return;
        }
        let namespaces = &self.namespaces;
        let changed = self
            .references
            .definition_changed(before, after, namespaces);
        self.networks_changed(changed);

        let mut names = BTreeSet::new();
        for definition in before.into_iter().chain(after) {
            names.insert(NetworkName::Attachment(definition.name.clone()));
            names.insert(NetworkName::Cni(definition.cni_name.clone()));
        }
        let attached = self
            .local
            .attached(|interface| names.contains(&interface.network));
        let mut pods: BTreeSet<PodKey> = attached.filter_map(|name| self.pods.find(name)).collect();
        for name in &names {
            pods.extend(self.pods.on_network(name));
        }
        for key in pods {
            self.reconsider(key);
        }
    }

    fn cluster_changed(&mut self, name: &Arc<str>, after: Option<&ClusterNetwork>) {
        let changed = self.references.cluster_changed(name, after);
        self.networks_changed(changed);
    }

    /// The references of these policies mean other networks.
    fn networks_changed(&mut self, policies: BTreeSet<PolicyKey>) {
        for key in policies {
            let Some(entry) = self.policies.get(key) else {
                continue;
            };
            let networks = self.references.networks(&entry.policy.networks);
            if networks != entry.networks {
                self.policies.set_networks(key, networks);
                self.touch_selected(key);
            }
        }
    }

    fn put_policy(&mut self, policy: Policy) {
        if let Some(key) = self.policies.find(&policy.name) {
            let known = self.policies.get(key);
            if known.is_some_and(|known| known.policy == policy) {
                return;
            }
            self.remove_policy(key);
        }
        let choice = policy.networks.clone();
        let key = self.policies.insert(policy);
        self.references
            .insert(key, &choice, &self.networks, &self.namespaces);
        let networks = self.references.networks(&choice);
        self.policies.set_networks(key, networks);
        self.touch_selected(key);
    }

    fn remove_policy(&mut self, key: PolicyKey) {
        self.touch_selected(key);
        if let Some(policy) = self.policies.remove(key) {
            self.references.remove(key, &policy.networks);
        }
    }

    /// The endpoints of the pods that a policy is for may become others.
    fn touch_selected(&mut self, key: PolicyKey) {
        let Some(entry) = self.policies.get(key) else {
            return;
        };
        let policy = &entry.policy;
        for pod in self.local.in_namespace(&policy.name.namespace) {
            let labels = self.pods.get(pod).map(|entry| &entry.pod.labels);
            if labels.is_some_and(|labels| policy.pods.matches(labels)) {
                self.dirty_pods.insert(pod);
            }
        }
    }

    fn settle_pods(&mut self, delta: &mut PlanDelta) {
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
            self.set_came(id);
        }
    }

    fn settle_chains(&mut self, delta: &mut PlanDelta) {
        let changes = self.chains.take_changes();
        for (id, chain) in changes.chains {
            if self.plan.chains.contains_key(&id) != chain.is_some() {
                delta.chains.insert(id, chain);
            }
        }
        for set in changes.released {
            self.sets.release(set);
        }
        for (id, set) in self.sets.drop_idle() {
            for key in self.pods.of(&set, &self.namespaces) {
                self.belong(key, id, &set.network, false);
            }
        }
        for id in self.sets.take_touched() {
            let set = self.sets.get(id);
            if self.plan.sets.contains_key(&id) != set.is_some() {
                delta.sets.insert(id, set.cloned());
            }
        }
    }

    /// A set is asked for that was not before.
    fn set_came(&mut self, id: SetId) {
        let Some(set) = self.sets.get(id).cloned() else {
            return;
        };
        for key in self.pods.of(&set, &self.namespaces) {
            self.belong(key, id, &set.network, true);
        }
    }

    fn belong(&mut self, key: PodKey, id: SetId, network: &NetworkKey, belongs: bool) {
        let Some(entry) = self.pods.get_mut(key) else {
            return;
        };
        match entry.sets.binary_search(&id) {
            Ok(at) if !belongs => {
                entry.sets.remove(at);
            }
            Err(at) if belongs && is_on_networks(&entry.pod) => entry.sets.insert(at, id),
            _ => return,
        }
        let addresses = entry.claims.iter().filter(|(on, _)| on == network);
        self.dirty_addresses.extend(addresses.cloned());
    }

    fn settle_addresses(&mut self, delta: &mut PlanDelta) {
        let mut sets: Vec<SetId> = Vec::new();
        for address in std::mem::take(&mut self.dirty_addresses) {
            sets.clear();
            for key in self.addresses.claimants(&address) {
                let of_pod = self.pods.get(*key).map(|entry| &entry.sets);
                let of_pod = of_pod.into_iter().flatten().copied();
                sets.extend(of_pod.filter(|id| self.sets.is_on(*id, &address.0)));
            }
            sets.sort_unstable();
            sets.dedup();
            let now = (!sets.is_empty()).then(|| self.classes.acquire(&sets));
            let before = self.plan.peers.get(&address).copied();
            if let Some(before) = before {
                self.classes.release(before);
            }
            if now != before {
                delta.peers.insert(address, now);
            }
        }
        for (id, sets) in self.classes.take_changes() {
            if self.plan.classes.contains_key(&id) != sets.is_some() {
                delta.classes.insert(id, sets);
            }
        }
    }

    fn settle_services(&mut self, delta: &mut PlanDelta) {
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
