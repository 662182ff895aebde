//! What is known of the cluster: no more than answers need.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use netqos_api::npwg::{AttachmentGrant, AttachmentPolicy};
use netqos_cluster::{Kind, Told};
use netqos_core::quota::{Excess, excesses};
use netqos_core::{Labels, ObjectName, Policy, Priority, Quota};
use netqos_k8s::Object;

/// The kinds that are watched.
pub(crate) const KINDS: [Kind; 4] = [
    Kind::Namespace,
    Kind::NetworkQoSQuota,
    Kind::NetworkQoS,
    Kind::NetworkAttachmentPolicy,
];

/// The label that Kubernetes gives to each namespace.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// Namespaces, quotas, and the policies that there are, also those for NetworkAttachmentDefinitions.
#[derive(Clone, Debug, Default)]
pub struct Known {
    namespaces: BTreeMap<Arc<str>, Labels>,
    quotas: BTreeMap<Arc<str>, Quota>,
    policies: BTreeMap<ObjectName, Policy>,
    attachment_policies: BTreeMap<Arc<str>, AttachmentPolicy>,
    told: BTreeSet<Kind>,
}

impl Known {
    /// Takes note of an object; of kinds that answers do not need, of nothing.
    pub fn put(&mut self, object: Object) {
        match object {
            Object::Namespace(it) => drop(self.namespaces.insert(it.name, it.labels)),
            Object::Quota(it) => drop(self.quotas.insert(it.name.clone(), it)),
            Object::Policy(it) => drop(self.policies.insert(it.name.clone(), it)),
            Object::AttachmentPolicy(it) => {
                self.attachment_policies.insert(it.name.clone(), it);
            }
            _ => {}
        }
    }

    /// An object of a kind is gone.
    fn remove(&mut self, kind: Kind, name: &ObjectName) {
        match kind {
            Kind::Namespace => drop(self.namespaces.remove(&name.name)),
            Kind::NetworkQoSQuota => drop(self.quotas.remove(&name.name)),
            Kind::NetworkQoS => drop(self.policies.remove(name)),
            Kind::NetworkAttachmentPolicy => drop(self.attachment_policies.remove(&name.name)),
            _ => {}
        }
    }

    /// Takes note of what a watch of a kind tells.
    pub(crate) fn hear(&mut self, kind: Kind, told: Told<Option<Object>>) {
        match told {
            Told::All(all) => {
                // What cannot be read any more is as it was: a quota that was spoiled still bounds.
                match kind {
                    Kind::Namespace => self.namespaces.clear(),
                    Kind::NetworkQoSQuota => self
                        .quotas
                        .retain(|name, _| all.contains_key(&ObjectName::new("", name))),
                    Kind::NetworkAttachmentPolicy => self
                        .attachment_policies
                        .retain(|name, _| all.contains_key(&ObjectName::new("", name))),
                    _ => self.policies.retain(|name, _| all.contains_key(name)),
                }
                all.into_values().flatten().for_each(|it| self.put(it));
                self.told.insert(kind);
            }
            Told::There(_, Some(object)) => self.put(object),
            Told::There(_, None) if kind != Kind::Namespace => {}
            Told::There(name, None) | Told::Gone(name) => self.remove(kind, &name),
            Told::Unknown => drop(self.told.insert(kind)),
            Told::Silent(_) | Told::Answers => {}
        }
    }

    /// True when everything was told at least once.
    pub(crate) fn is_whole(&self) -> bool {
        KINDS.iter().all(|kind| self.told.contains(kind))
    }

    /// What a policy asks for and may not, by the quotas for its namespace.
    pub(crate) fn excesses(&self, policy: &Policy) -> Vec<Excess> {
        excesses(
            policy,
            &self.labels(&policy.name.namespace),
            self.quotas.values(),
        )
    }

    /// The policies of its namespace that have the priority of this one.
    pub(crate) fn equals(&self, policy: &Policy) -> Vec<&ObjectName> {
        let others = self.policies.values().filter(|other| {
            other.name.namespace == policy.name.namespace
                && other.name != policy.name
                && other.priority == policy.priority
        });
        others.map(|other| &other.name).collect()
    }

    /// The policies that are in force by all other quotas, and would not be by this one.
    pub(crate) fn beyond(&self, quota: &Quota) -> Vec<&ObjectName> {
        let beyond = self.policies.values().filter(|policy| {
            let labels = self.labels(&policy.name.namespace);
            quota.is_for(&labels) && !quota.excesses(policy).is_empty()
        });
        beyond.map(|policy| &policy.name).collect()
    }

    /// The least priority that the quotas for a namespace allow.
    pub(crate) fn least_priority(&self, namespace: &str) -> Priority {
        let labels = self.labels(&namespace.into());
        let quotas = self.quotas.values().filter(|quota| quota.is_for(&labels));
        quotas
            .map(|quota| quota.min_priority)
            .max()
            .unwrap_or_default()
    }

    /// The permissions for the NetworkAttachmentDefinitions of a namespace.
    pub(crate) fn attachment_grant(&self, namespace: &Arc<str>) -> AttachmentGrant {
        let labels = self.labels(namespace);
        let policies = self.attachment_policies.values();
        AttachmentGrant::united(policies.filter(|it| it.namespaces.matches(&labels)))
    }

    /// The labels of a namespace; of one that is not known yet, those that it is sure to have.
    fn labels(&self, namespace: &Arc<str>) -> Labels {
        let mut labels = self.namespaces.get(namespace).cloned().unwrap_or_default();
        labels.insert(NAME_LABEL.into(), namespace.clone());
        labels
    }
}

#[cfg(test)]
mod tests {
    use netqos_k8s::object_from_value;
    use serde_json::{Value, json};

    use super::*;

    fn object(kind: &str, namespace: Option<&str>, spec: Value) -> Object {
        let group = if kind == "NetworkQoS" {
            "k8s.ovn.org"
        } else {
            "netqos.io"
        };
        let metadata = json!({"name": "a", "namespace": namespace});
        let api_version = format!("{group}/v1alpha1");
        let value = json!({
            "apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec
        });
        object_from_value(&value).unwrap()
    }

    /// Somebody has spoiled it, which an older schema let pass.
    #[test]
    fn a_quota_that_cannot_be_read_any_more_bounds_as_it_did() {
        let kind = Kind::NetworkQoSQuota;
        let name = ObjectName::new("", "a");
        let quota = object("NetworkQoSQuota", None, json!({"priority": {"max": 5}}));
        let mut known = Known::default();
        known.hear(kind, Told::There(name.clone(), Some(quota)));
        let spec = json!({"priority": 10, "egress": [{"dscp": 1}]});
        let Object::Policy(policy) = object("NetworkQoS", Some("games"), spec) else {
            panic!()
        };
        for told in [
            Told::There(name.clone(), None),
            Told::All([(name.clone(), None)].into()),
        ] {
            known.hear(kind, told);
            assert_eq!(known.excesses(&policy).len(), 1);
        }
        known.hear(kind, Told::All([].into()));
        assert_eq!(known.excesses(&policy).len(), 0);
    }
}
