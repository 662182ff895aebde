//! The objects of a cluster that decide who is a peer, and what a change of one concerns.

use std::collections::BTreeSet;
use std::sync::Arc;

use netqos_core::objects::{ClusterNetwork, NetworkDefinition, NetworkName, Pod};
use netqos_core::{NetworkKey, ObjectName, Policy, Quota};

use crate::Change;
use crate::intern::Interner;
use crate::namespaces::Namespaces;
use crate::networks::Networks;
use crate::pods::{self, PodKey, Pods};
use crate::policies::{Policies, PolicyKey};
use crate::quotas::Quotas;
use crate::references::References;

/// Namespaces, networks, pods and policies.
#[derive(Debug, Default)]
pub(crate) struct Cluster {
    pub(crate) namespaces: Namespaces,
    pub(crate) networks: Networks,
    pub(crate) references: References,
    pub(crate) policies: Policies,
    pub(crate) pods: Pods,
    pub(crate) quotas: Quotas,
    strings: Interner,
}

/// What a change concerns.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    /// A pod that is not there any more.
    pub(crate) pod_left: Option<(PodKey, pods::Entry)>,
    /// Pods that may be part of something else now.
    pub(crate) pods: BTreeSet<PodKey>,
    /// A namespace that has other labels.
    pub(crate) namespace: Option<Arc<str>>,
    /// Names of networks that may mean another one.
    pub(crate) names: BTreeSet<NetworkName>,
    /// The quotas are others.
    pub(crate) quotas: bool,
    /// A policy that is not there any more.
    pub(crate) policy_left: Option<(PolicyKey, Policy)>,
    /// Policies that are there now, or are in force on other networks.
    pub(crate) policies: BTreeSet<PolicyKey>,
}

impl Cluster {
    /// Takes note of a change of an object of these kinds; others are not its business.
    pub(crate) fn apply(&mut self, change: Change) -> Effects {
        match change {
            Change::Namespace(namespace) => {
                let (mut name, mut labels) = (namespace.name, namespace.labels);
                self.strings.string(&mut name);
                self.strings.labels(&mut labels);
                match self.namespaces.put(name.clone(), labels) {
                    true => self.namespace_changed(name),
                    false => Effects::default(),
                }
            }
            Change::NamespaceGone(name) => match self.namespaces.remove(&name) {
                true => self.namespace_changed(name),
                false => Effects::default(),
            },
            Change::Pod(pod) => self.put_pod(pod),
            Change::PodGone(id) => {
                let key = self.pods.find(&id.name);
                let same = |key: &PodKey| self.pods.get(*key).is_some_and(|it| it.pod.id == id);
                Effects {
                    pod_left: key.filter(same).and_then(|key| self.remove_pod(key)),
                    ..Effects::default()
                }
            }
            Change::NetworkDefinition(definition) => {
                let after = definition.clone();
                let before = self.networks.define(definition);
                self.definition_changed(before.as_ref(), Some(&after))
            }
            Change::NetworkDefinitionGone(name) => {
                let before = self.networks.undefine(&name);
                self.definition_changed(before.as_ref(), None)
            }
            Change::ClusterNetwork(network) => {
                let after = network.clone();
                let before = self.networks.put_cluster(network);
                self.cluster_network_changed(&after.name, before.as_ref(), Some(&after))
            }
            Change::ClusterNetworkGone(name) => {
                let before = self.networks.remove_cluster(&name);
                self.cluster_network_changed(&name, before.as_ref(), None)
            }
            Change::Policy(policy) => self.put_policy(policy),
            Change::PolicyGone(name) => {
                let key = self.policies.find(&name);
                Effects {
                    policy_left: key.and_then(|key| self.remove_policy(key)),
                    ..Effects::default()
                }
            }
            Change::Quota(quota) => {
                let after = quota.clone();
                let before = self.quotas.put(quota);
                self.quota_changed(before.as_ref(), Some(&after))
            }
            Change::QuotaGone(name) => {
                let before = self.quotas.remove(&name);
                self.quota_changed(before.as_ref(), None)
            }
            _ => Effects::default(),
        }
    }

    /// Keys of pods that left may be given to others from now on.
    pub(crate) fn settle(&mut self) {
        self.pods.settle();
    }

    fn put_pod(&mut self, mut pod: Pod) -> Effects {
        self.strings.string(&mut pod.id.name.namespace);
        self.strings.labels(&mut pod.labels);
        if let Some(node) = &mut pod.node {
            self.strings.string(node);
        }
        let known = self.pods.find(&pod.id.name);
        let mut effects = Effects::default();
        let key = match known.and_then(|key| Some((key, &self.pods.get(key)?.pod))) {
            Some((_, known)) if *known == pod => return effects,
            Some((key, known)) if known.id == pod.id => {
                self.pods.replace(key, pod);
                key
            }
            Some((key, _)) => {
                effects.pod_left = self.remove_pod(key);
                self.pods.insert(pod)
            }
            None => self.pods.insert(pod),
        };
        effects.pods.insert(key);
        effects
    }

    fn remove_pod(&mut self, key: PodKey) -> Option<(PodKey, pods::Entry)> {
        Some((key, self.pods.remove(key)?))
    }

    fn namespace_changed(&mut self, name: Arc<str>) -> Effects {
        let (networks, namespaces) = (&self.networks, &self.namespaces);
        let mut changed = self
            .references
            .namespace_changed(&name, networks, namespaces);
        let mut pods = BTreeSet::new();
        if self.networks.clusters().any(|it| it.primary.is_some()) {
            changed.extend(self.policies_of(&name));
            pods.extend(self.pods.in_namespace(&name));
        }
        let mut policies = self.networks_changed(changed);
        policies.extend(self.assess([name.clone()]));
        Effects {
            policies,
            pods,
            namespace: Some(name),
            ..Effects::default()
        }
    }

    fn definition_changed(
        &mut self,
        before: Option<&NetworkDefinition>,
        after: Option<&NetworkDefinition>,
    ) -> Effects {
        let mut effects = Effects::default();
        if before == after {
            return effects;
        }
        let namespaces = &self.namespaces;
        let mut changed = self
            .references
            .definition_changed(before, after, namespaces);
        for definition in before.into_iter().chain(after) {
            // It may decide which network is the primary one of its namespace.
            if definition.primary.is_some() || definition.cluster_network.is_some() {
                let namespace = &definition.name.namespace;
                changed.extend(self.policies_of(namespace));
                effects.pods.extend(self.pods.in_namespace(namespace));
            }
        }
        effects.policies = self.networks_changed(changed);
        for definition in before.into_iter().chain(after) {
            let names = &mut effects.names;
            names.insert(NetworkName::Attachment(definition.name.clone()));
            names.insert(NetworkName::Cni(definition.cni_name.clone()));
        }
        for name in &effects.names {
            effects.pods.extend(self.pods.on_network(name));
        }
        effects
    }

    fn cluster_network_changed(
        &mut self,
        name: &Arc<str>,
        before: Option<&ClusterNetwork>,
        after: Option<&ClusterNetwork>,
    ) -> Effects {
        let mut changed = self.references.cluster_changed(name, after);
        let mut pods = BTreeSet::new();
        let primary = |it: Option<&ClusterNetwork>| it.and_then(|it| it.primary.clone());
        if primary(before) != primary(after) {
            let namespaces = self
                .policies
                .namespaces()
                .flat_map(|it| self.policies_of(it));
            changed.extend(namespaces);
            pods.extend(self.pods.iter().map(|(key, _)| key));
        }
        Effects {
            policies: self.networks_changed(changed),
            pods,
            ..Effects::default()
        }
    }

    /// The networks on which a policy may be enforced.
    pub(crate) fn networks_of(&self, policy: &Policy) -> BTreeSet<NetworkKey> {
        let primary = self
            .networks
            .primary(&policy.name.namespace, &self.namespaces);
        let primary = primary.map(|primary| primary.key);
        self.references.networks(&policy.networks, primary)
    }

    /// The policies of a namespace, whose primary network may be another now.
    fn policies_of(&self, namespace: &Arc<str>) -> BTreeSet<PolicyKey> {
        let policies = self.policies.in_namespace(namespace);
        let keys = policies.filter_map(|it| self.policies.find(&it.policy.name));
        keys.collect()
    }

    /// The references of these policies mean other networks. Says which of them are in force on
    /// others now.
    fn networks_changed(&mut self, mut policies: BTreeSet<PolicyKey>) -> BTreeSet<PolicyKey> {
        policies.retain(|key| {
            let Some(entry) = self.policies.get(*key) else {
                return false;
            };
            let networks = self.networks_of(&entry.policy);
            let changed = networks != entry.networks;
            if changed {
                self.policies.set_networks(*key, networks);
            }
            changed
        });
        policies
    }

    fn quota_changed(&mut self, before: Option<&Quota>, after: Option<&Quota>) -> Effects {
        let mut effects = Effects::default();
        if before == after {
            return effects;
        }
        effects.quotas = true;
        let concerned = self.policies.namespaces().filter(|name| {
            let labels = self.namespaces.labels(name);
            let mut quotas = before.into_iter().chain(after);
            quotas.any(|quota| quota.is_for(&labels))
        });
        let concerned: Vec<Arc<str>> = concerned.cloned().collect();
        effects.policies = self.assess(concerned);
        effects
    }

    /// Finds out anew which policies of these namespaces keep to their quotas. Says which came into
    /// force by that, or out of it.
    fn assess(&mut self, namespaces: impl IntoIterator<Item = Arc<str>>) -> BTreeSet<PolicyKey> {
        let mut changed = BTreeSet::new();
        for namespace in namespaces {
            let policies = self.policies.in_namespace(&namespace);
            let names: Vec<ObjectName> = policies.map(|it| it.policy.name.clone()).collect();
            let keys = names.iter().filter_map(|name| self.policies.find(name));
            let keys: Vec<PolicyKey> = keys.collect();
            changed.extend(keys.into_iter().filter(|key| self.assess_one(*key)));
        }
        changed
    }

    fn assess_one(&mut self, key: PolicyKey) -> bool {
        let Some(entry) = self.policies.get(key) else {
            return false;
        };
        let labels = self.namespaces.labels(&entry.policy.name.namespace);
        let excesses = self.quotas.excesses(&entry.policy, &labels);
        self.policies.set_excesses(key, excesses)
    }

    fn put_policy(&mut self, policy: Policy) -> Effects {
        let mut effects = Effects::default();
        if let Some(key) = self.policies.find(&policy.name) {
            let known = self.policies.get(key);
            if known.is_some_and(|known| known.policy == policy) {
                return effects;
            }
            effects.policy_left = self.remove_policy(key);
        }
        let choice = policy.networks.clone();
        let key = self.policies.insert(policy);
        self.references
            .insert(key, &choice, &self.networks, &self.namespaces);
        let entry = self.policies.get(key);
        let networks = entry.map(|entry| self.networks_of(&entry.policy));
        self.policies
            .set_networks(key, networks.unwrap_or_default());
        self.assess_one(key);
        effects.policies.insert(key);
        effects
    }

    fn remove_policy(&mut self, key: PolicyKey) -> Option<(PolicyKey, Policy)> {
        let policy = self.policies.remove(key)?;
        self.references.remove(key, &policy.networks);
        Some((key, policy))
    }
}
