//! Namespaces, networks and policies that come, change and go: which pods that concerns.

use std::collections::BTreeSet;
use std::sync::Arc;

use netqos_core::Policy;
use netqos_core::objects::{ClusterNetwork, NetworkDefinition, NetworkName};

use super::Index;
use crate::pods::PodKey;
use crate::policies::PolicyKey;

impl Index {
    pub(super) fn namespace_changed(&mut self, name: &Arc<str>) {
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

    pub(super) fn definition_changed(
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

    pub(super) fn cluster_changed(&mut self, name: &Arc<str>, after: Option<&ClusterNetwork>) {
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

    pub(super) fn put_policy(&mut self, policy: Policy) {
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

    pub(super) fn remove_policy(&mut self, key: PolicyKey) {
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
}
