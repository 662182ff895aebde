//! The networks that there are, and what pods' statuses call them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use netqos_core::objects::{ClusterNetwork, NetworkDefinition, NetworkName};
use netqos_core::{NetworkKey, ObjectName};

use crate::hash::HashMap;

/// Definitions of networks.
#[derive(Debug, Default)]
pub(crate) struct Networks {
    definitions: BTreeMap<ObjectName, NetworkDefinition>,
    clusters: BTreeMap<Arc<str>, ClusterNetwork>,
    by_cni_name: HashMap<Arc<str>, BTreeSet<ObjectName>>,
}

impl Networks {
    /// Puts a definition in, and gives back the one that it replaces.
    pub(crate) fn define(&mut self, definition: NetworkDefinition) -> Option<NetworkDefinition> {
        let before = self.undefine(&definition.name);
        let of_name = self.by_cni_name.entry(definition.cni_name.clone());
        of_name.or_default().insert(definition.name.clone());
        self.definitions.insert(definition.name.clone(), definition);
        before
    }

    pub(crate) fn undefine(&mut self, name: &ObjectName) -> Option<NetworkDefinition> {
        let removed = self.definitions.remove(name)?;
        if let Some(of_name) = self.by_cni_name.get_mut(&removed.cni_name) {
            of_name.remove(name);
            if of_name.is_empty() {
                self.by_cni_name.remove(&removed.cni_name);
            }
        }
        Some(removed)
    }

    /// True when OVN-Kubernetes made a network.
    pub(crate) fn is_of_ovn(&self, name: &ObjectName) -> bool {
        let definition = self.definitions.get(name);
        definition.is_some_and(|definition| definition.is_of_ovn)
    }

    pub(crate) fn put_cluster(&mut self, network: ClusterNetwork) {
        self.clusters.insert(network.name.clone(), network);
    }

    pub(crate) fn remove_cluster(&mut self, name: &Arc<str>) {
        self.clusters.remove(name);
    }

    pub(crate) fn definitions(&self) -> impl Iterator<Item = &NetworkDefinition> {
        self.definitions.values()
    }

    /// The definitions in one namespace.
    pub(crate) fn definitions_in(
        &self,
        namespace: &Arc<str>,
    ) -> impl Iterator<Item = &NetworkDefinition> {
        let first = ObjectName {
            namespace: namespace.clone(),
            name: "".into(),
        };
        let behind = self.definitions.range(first..);
        behind
            .map(|(_, definition)| definition)
            .take_while(move |definition| definition.name.namespace == *namespace)
    }

    pub(crate) fn clusters(&self) -> impl Iterator<Item = &ClusterNetwork> {
        self.clusters.values()
    }

    /// The network of which the status of a pod in this namespace speaks. `None`: a CNI network
    /// that no definition is of.
    ///
    /// Definitions in several namespaces may be of CNI networks of the same name: the one in the
    /// pod's own namespace counts, then the first by name.
    pub(crate) fn named(&self, name: &NetworkName, namespace: &Arc<str>) -> Option<NetworkKey> {
        match name {
            NetworkName::Default => Some(NetworkKey::Default),
            NetworkName::Attachment(name) => Some(match self.definitions.get(name) {
                Some(definition) => definition.key(),
                None => NetworkKey::Attachment(name.clone()),
            }),
            NetworkName::Cni(name) => {
                let of_name = self.by_cni_name.get(name)?;
                let own = of_name.iter().find(|name| name.namespace == *namespace);
                let definition = own.or_else(|| of_name.first())?;
                self.definitions.get(definition).map(NetworkDefinition::key)
            }
        }
    }
}
