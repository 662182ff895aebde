//! The index: what is known, and what of it has changed since it was asked last.

use std::collections::BTreeSet;

use netqos_core::{EndpointId, NodePlan, ObjectName, PlanDelta, PodId};

use crate::Change;
use crate::addresses::Addresses;
use crate::chains::Chains;
use crate::classes::Classes;
use crate::combinations::Combinations;
use crate::intern::Interner;
use crate::local::{Attached, Local};
use crate::namespaces::Namespaces;
use crate::networks::Networks;
use crate::pods::{PodKey, Pods};
use crate::policies::Policies;
use crate::references::References;
use crate::services::Services;
use crate::sets::Sets;

mod belonging;
mod effects;
mod settle;

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
    combinations: Combinations,
    chains: Chains,
    classes: Classes,
    /// Virtual addresses matter, because a chain is in force.
    serving: bool,
    /// Pods whose endpoints may have become others.
    dirty_pods: BTreeSet<PodKey>,
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
            combinations: Combinations::default(),
            chains: Chains::default(),
            classes: Classes::default(),
            serving: false,
            dirty_pods: BTreeSet::new(),
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
        self.addresses.settle();
        self.combinations.settle();
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
}
