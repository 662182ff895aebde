//! The index: what is known, and what of it has changed since it was asked last.

use std::collections::BTreeSet;
use std::sync::Arc;

use netqos_core::{Elsewhere, EndpointId, NodePlan, ObjectName, PlanDelta, PodId};

use crate::Change;
use crate::chains::Chains;
use crate::cluster::Cluster;
use crate::local::{Attached, Local};
use crate::members::Members;
use crate::pods::PodKey;
use crate::profiles::Profiles;
use crate::services::Services;
use crate::slices::Slices;

mod effects;
mod settle;

/// What policies mean on one node. See the [crate] for how it is used.
#[derive(Debug)]
pub struct Index {
    pub(crate) local: Local,
    pub(crate) cluster: Cluster,
    pub(crate) services: Services,
    pub(crate) profiles: Profiles,
    /// `None`: who is a peer is found out from the pods.
    pub(crate) slices: Option<Slices>,
    members: Members,
    chains: Chains,
    elsewhere: Elsewhere,
    /// Virtual addresses matter, because a chain is in force.
    serving: bool,
    /// Pods whose endpoints may have become others.
    dirty_pods: BTreeSet<PodKey>,
    plan: NodePlan,
}

/// What an index learns the addresses of peers from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PeerSource {
    /// From pods and namespaces, all of the cluster: each [`Change::PeerSlice`] is passed over.
    #[default]
    Pods,
    /// From the slices in which a controller publishes them, and never from pods, of which it needs
    /// none but the node's own. [`NodePlan::sets`] says of which sets it wants slices; those of
    /// others are kept, at the cost of their size.
    Slices {
        /// The controller's namespace, where the slices of sets of several namespaces are.
        controller: Arc<str>,
    },
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
    /// An index for the node of this name that knows of nothing, and is to be fed with all pods.
    pub fn for_node(name: &str) -> Self {
        Self::with_peers(name, PeerSource::Pods)
    }

    /// An index for the node of this name that knows of nothing, and learns the addresses of peers
    /// from there.
    pub fn with_peers(node: &str, peers: PeerSource) -> Self {
        Self {
            local: Local::new(node),
            cluster: Cluster::default(),
            services: Services::default(),
            profiles: Profiles::default(),
            slices: match peers {
                PeerSource::Pods => None,
                PeerSource::Slices { controller } => Some(Slices::new(controller)),
            },
            members: Members::default(),
            chains: Chains::default(),
            elsewhere: Elsewhere::default(),
            serving: false,
            dirty_pods: BTreeSet::new(),
            plan: NodePlan::default(),
        }
    }

    /// Takes note of a change.
    pub fn apply(&mut self, change: Change) {
        match change {
            Change::Service(service) => self.services.put(service),
            Change::ServiceGone(name) => self.services.remove(&name),
            Change::EndpointSlice(slice) => self.services.put_slice(slice),
            Change::EndpointSliceGone(name) => self.services.remove_slice(&name),
            Change::PeerSlice(slice) => {
                if let Some(slices) = &mut self.slices {
                    slices.put(slice, &mut self.members);
                }
            }
            Change::PeerSliceGone(name) => {
                if let Some(slices) = &mut self.slices {
                    slices.remove(&name, &mut self.members);
                }
            }
            Change::Profile(profile) => {
                let after = profile.clone();
                let before = self.profiles.put(profile);
                self.profile_changed(before.as_ref(), Some(&after));
            }
            Change::ProfileGone(name) => {
                let before = self.profiles.remove(&name);
                self.profile_changed(before.as_ref(), None);
            }
            Change::Attachments {
                pod,
                uid,
                interfaces,
            } => {
                let key = self.cluster.pods.find(&pod);
                if self.local.attach(pod, Attached { uid, interfaces })
                    && let Some(key) = key
                {
                    self.reconsider(key);
                    // By a record now, or by none any more.
                    if let Some(entry) =
                        self.cluster.pods.get(key).filter(|_| self.slices.is_none())
                    {
                        let claims = entry.claims.iter();
                        claims.for_each(|address| self.members.addresses.touch(*address));
                    }
                }
            }
            Change::Elsewhere(elsewhere) => {
                if self.elsewhere != elsewhere {
                    self.elsewhere = elsewhere;
                    self.dirty_pods.extend(self.local.all());
                }
            }
            other => {
                let effects = self.cluster.apply(other);
                self.follow(effects);
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
        self.cluster.settle();
        self.slices.iter_mut().for_each(Slices::settle);
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
        let Some(key) = self.cluster.policies.find(policy) else {
            return Vec::new();
        };
        let mut selected = Vec::new();
        for pod in self.local.in_namespace(&policy.namespace) {
            let entry = self.cluster.pods.get(pod);
            let (Some(entry), Some(in_force)) = (entry, self.local.in_force(pod)) else {
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
