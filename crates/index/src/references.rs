//! What the networks are that policies refer to.
//!
//! Equal references of several policies are one. A definition that comes, goes or is labelled
//! otherwise is shown to the references that could mean it, and those policies are named whose
//! networks became others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use netqos_core::objects::{ClusterNetwork, NetworkDefinition};
use netqos_core::{NetworkChoice, NetworkKey, NetworkRef, ObjectName};

use crate::hash::HashMap;
use crate::namespaces::Namespaces;
use crate::networks::Networks;
use crate::policies::PolicyKey;

/// The references of all policies.
#[derive(Debug, Default)]
pub(crate) struct References {
    all: HashMap<NetworkRef, Reference>,
    /// Those of them that choose by labels, and so may mean any definition.
    by_labels: BTreeSet<NetworkRef>,
}

#[derive(Debug, Default)]
struct Reference {
    means: BTreeMap<Origin, NetworkKey>,
    policies: BTreeSet<PolicyKey>,
}

/// The object that says that a network is there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Origin {
    Always,
    Definition(ObjectName),
    Cluster(Arc<str>),
}

impl References {
    /// A policy refers to these networks.
    pub(crate) fn insert(
        &mut self,
        policy: PolicyKey,
        choice: &NetworkChoice,
        networks: &Networks,
        namespaces: &Namespaces,
    ) {
        for reference in referred(choice) {
            let known = self.all.entry(reference.clone()).or_insert_with(|| {
                if matches!(
                    reference,
                    NetworkRef::AttachmentsMatching { .. } | NetworkRef::ClustersMatching(_)
                ) {
                    self.by_labels.insert(reference.clone());
                }
                Reference::resolve(reference, networks, namespaces)
            });
            known.policies.insert(policy);
        }
    }

    /// A policy does so no more.
    pub(crate) fn remove(&mut self, policy: PolicyKey, choice: &NetworkChoice) {
        for reference in referred(choice) {
            if let Some(known) = self.all.get_mut(reference) {
                known.policies.remove(&policy);
                if known.policies.is_empty() {
                    self.all.remove(reference);
                    self.by_labels.remove(reference);
                }
            }
        }
    }

    /// The networks that a choice means now, in a namespace with this primary network. Also there pods may be on the default
    /// one alone: those that were there before.
    pub(crate) fn networks(
        &self,
        choice: &NetworkChoice,
        primary: Option<NetworkKey>,
    ) -> BTreeSet<NetworkKey> {
        if *choice == NetworkChoice::Default {
            return primary.into_iter().chain([NetworkKey::Default]).collect();
        }
        let known = referred(choice).filter_map(|reference| self.all.get(reference));
        known
            .flat_map(|reference| reference.means.values().cloned())
            .collect()
    }

    /// The references of a choice that name a network which does not exist.
    pub(crate) fn missing<'c>(
        &self,
        choice: &'c NetworkChoice,
    ) -> impl Iterator<Item = &'c NetworkRef> {
        referred(choice).filter(|reference| {
            let by_name = matches!(
                reference,
                NetworkRef::Attachment(_) | NetworkRef::Cluster(_)
            );
            let known = self.all.get(*reference);
            by_name && known.is_none_or(|reference| reference.means.is_empty())
        })
    }

    /// A definition became another one, or came, or went. Says whose networks changed.
    pub(crate) fn definition_changed(
        &mut self,
        before: Option<&NetworkDefinition>,
        after: Option<&NetworkDefinition>,
        namespaces: &Namespaces,
    ) -> BTreeSet<PolicyKey> {
        let mut changed = BTreeSet::new();
        let mut asked = self.by_labels.clone();
        for definition in before.into_iter().chain(after) {
            asked.insert(NetworkRef::Attachment(definition.name.clone()));
            let cluster = definition.cluster_network.clone();
            asked.extend(cluster.map(NetworkRef::Cluster));
        }
        let Some(name) = after.or(before).map(|definition| &definition.name) else {
            return changed;
        };
        let origin = Origin::Definition(name.clone());
        for reference in &asked {
            let means = after.filter(|after| means_definition(reference, after, namespaces));
            let means = means.map(NetworkDefinition::key);
            self.set(reference, &origin, means, &mut changed);
        }
        changed
    }

    /// A cluster network became another one, or came, or went.
    pub(crate) fn cluster_changed(
        &mut self,
        name: &Arc<str>,
        after: Option<&ClusterNetwork>,
    ) -> BTreeSet<PolicyKey> {
        let mut changed = BTreeSet::new();
        let mut asked = self.by_labels.clone();
        asked.insert(NetworkRef::Cluster(name.clone()));
        let origin = Origin::Cluster(name.clone());
        for reference in &asked {
            let means = after.filter(|after| means_cluster(reference, after));
            let means = means.map(|after| NetworkKey::Cluster(after.name.clone()));
            self.set(reference, &origin, means, &mut changed);
        }
        changed
    }

    /// A namespace is labelled otherwise.
    pub(crate) fn namespace_changed(
        &mut self,
        namespace: &Arc<str>,
        networks: &Networks,
        namespaces: &Namespaces,
    ) -> BTreeSet<PolicyKey> {
        let mut changed = BTreeSet::new();
        for reference in self.by_labels.clone() {
            for definition in networks.definitions_in(namespace) {
                let origin = Origin::Definition(definition.name.clone());
                let means = means_definition(&reference, definition, namespaces);
                let means = means.then(|| definition.key());
                self.set(&reference, &origin, means, &mut changed);
            }
        }
        changed
    }

    fn set(
        &mut self,
        reference: &NetworkRef,
        origin: &Origin,
        means: Option<NetworkKey>,
        changed: &mut BTreeSet<PolicyKey>,
    ) {
        let Some(known) = self.all.get_mut(reference) else {
            return;
        };
        if known.means.get(origin) == means.as_ref() {
            return;
        }
        match means {
            Some(means) => known.means.insert(origin.clone(), means),
            None => known.means.remove(origin),
        };
        changed.extend(&known.policies);
    }
}

impl Reference {
    fn resolve(reference: &NetworkRef, networks: &Networks, namespaces: &Namespaces) -> Self {
        let mut means = BTreeMap::new();
        if *reference == NetworkRef::Default {
            means.insert(Origin::Always, NetworkKey::Default);
        }
        for definition in networks.definitions() {
            if means_definition(reference, definition, namespaces) {
                let origin = Origin::Definition(definition.name.clone());
                means.insert(origin, definition.key());
            }
        }
        for cluster in networks.clusters() {
            if means_cluster(reference, cluster) {
                let origin = Origin::Cluster(cluster.name.clone());
                means.insert(origin, NetworkKey::Cluster(cluster.name.clone()));
            }
        }
        Self {
            means,
            policies: BTreeSet::new(),
        }
    }
}

fn referred(choice: &NetworkChoice) -> impl Iterator<Item = &NetworkRef> {
    let references = match choice {
        NetworkChoice::Default => &[][..],
        NetworkChoice::AnyOf(references) => references,
    };
    references.iter()
}

fn means_definition(
    reference: &NetworkRef,
    definition: &NetworkDefinition,
    namespaces: &Namespaces,
) -> bool {
    match reference {
        NetworkRef::Default | NetworkRef::ClustersMatching(_) => false,
        NetworkRef::Attachment(name) => definition.name == *name,
        // A definition that the cluster network owns says that there is one.
        NetworkRef::Cluster(name) => definition.cluster_network.as_ref() == Some(name),
        NetworkRef::AttachmentsMatching {
            namespaces: wanted,
            networks,
        } => {
            networks.matches(&definition.labels)
                && wanted.matches(&namespaces.labels(&definition.name.namespace))
        }
    }
}

fn means_cluster(reference: &NetworkRef, cluster: &ClusterNetwork) -> bool {
    match reference {
        NetworkRef::Cluster(name) => cluster.name == *name,
        NetworkRef::ClustersMatching(selector) => selector.matches(&cluster.labels),
        _ => false,
    }
}
