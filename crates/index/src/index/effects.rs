//! Changes of the cluster's objects: which of the node's pods they concern.

use netqos_core::Profile;

use super::Index;
use crate::cluster::Effects;
use crate::pods::PodKey;

impl Index {
    pub(super) fn follow(&mut self, effects: Effects) {
        let mut pods = match self.slices {
            None => self.members.concerned(&effects, &self.cluster),
            // What labels a namespace has is of no matter where others found out who is a peer.
            Some(_) => effects.pods.clone(),
        };
        if !effects.names.is_empty() {
            let names = &effects.names;
            let attached = self.local.attached(|it| names.contains(&it.network));
            pods.extend(attached.filter_map(|name| self.cluster.pods.find(name)));
        }
        // Of which namespaces a quota is, is asked when limits are.
        if effects.quotas {
            self.dirty_pods.extend(self.local.all());
        } else if let Some(namespace) = &effects.namespace {
            self.dirty_pods.extend(self.local.in_namespace(namespace));
        }
        if let Some((key, entry)) = effects.pod_left {
            let namespace = &entry.pod.id.name.namespace;
            if self.local.enlist(key, namespace, false) {
                self.dirty_pods.insert(key);
            }
            self.members.forget(key, entry);
        }
        let left = effects.policy_left.iter().map(|(_, policy)| policy);
        let policies = effects.policies.iter();
        let policies = policies.filter_map(|key| Some(&self.cluster.policies.get(*key)?.policy));
        for policy in left.chain(policies) {
            // The endpoints of the pods that it is for may become others.
            for pod in self.local.in_namespace(&policy.name.namespace) {
                let labels = self.cluster.pods.get(pod).map(|entry| &entry.pod.labels);
                if labels.is_some_and(|labels| policy.pods.matches(labels)) {
                    self.dirty_pods.insert(pod);
                }
            }
        }
        for key in pods {
            self.reconsider(key);
        }
    }

    /// A profile became another one, or came, or went: the node's pods that it is or was for may be
    /// held to something else.
    pub(super) fn profile_changed(&mut self, before: Option<&Profile>, after: Option<&Profile>) {
        let Some(name) = after.or(before).map(|profile| &profile.name) else {
            return;
        };
        if before == after {
            return;
        }
        for pod in self.local.in_namespace(&name.namespace) {
            let labels = self.cluster.pods.get(pod).map(|entry| &entry.pod.labels);
            let mut profiles = before.into_iter().chain(after);
            if labels.is_some_and(|labels| profiles.any(|profile| profile.is_for(labels))) {
                self.dirty_pods.insert(pod);
            }
        }
    }

    /// Finds out anew what a pod is part of, and whether it is of this node.
    pub(super) fn reconsider(&mut self, key: PodKey) {
        let Some(entry) = self.cluster.pods.get(key) else {
            return;
        };
        let pod = &entry.pod;
        let namespace = pod.id.name.namespace.clone();
        let here = self.local.has(pod);
        if self.slices.is_none() {
            let found = self.local.interfaces(pod);
            self.members.reconsider(key, found, &mut self.cluster);
        }
        if self.local.enlist(key, &namespace, here) {
            self.dirty_pods.insert(key);
        }
    }
}
