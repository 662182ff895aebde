//! The networks that there are, and what pods' statuses call them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ipnet::IpNet;
use netqos_core::objects::{ClusterNetwork, NetworkDefinition, NetworkName};
use netqos_core::{NetworkKey, ObjectName};

use crate::hash::HashMap;
use crate::namespaces::Namespaces;

/// The primary network of a namespace.
#[derive(Clone, Debug)]
pub(crate) struct Primary<'n> {
    pub(crate) key: NetworkKey,
    /// The subnets of its pods' addresses.
    pub(crate) subnets: &'n [IpNet],
}

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

    pub(crate) fn put_cluster(&mut self, network: ClusterNetwork) -> Option<ClusterNetwork> {
        self.clusters.insert(network.name.clone(), network)
    }

    pub(crate) fn remove_cluster(&mut self, name: &Arc<str>) -> Option<ClusterNetwork> {
        self.clusters.remove(name)
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

    /// The primary network of a namespace, if that is not the default one: of its own `UserDefinedNetwork`, or of a
    /// cluster-wide one that selects it, where it owns a definition. Objects of those kinds decide, and no definition, which a
    /// tenant may write.
    pub(crate) fn primary(
        &self,
        namespace: &Arc<str>,
        namespaces: &Namespaces,
    ) -> Option<Primary<'_>> {
        let definitions = || self.definitions_in(namespace);
        let mut own = definitions().filter(|it| it.cluster_network.is_none());
        let own = own.find_map(|it| Some((it.key(), it.primary_subnets()?)));
        let of_cluster = || {
            definitions().find_map(|definition| {
                let name = definition.cluster_network.as_ref()?;
                let primary = self.clusters.get(name)?.primary.as_ref()?;
                let is_covered = primary.namespaces.matches(&namespaces.labels(namespace));
                let is_it = is_covered && definition.is_owned_by(&primary.uid);
                is_it.then(|| (definition.key(), &*primary.subnets))
            })
        };
        let (key, subnets) = own.or_else(of_cluster)?;
        Some(Primary { key, subnets })
    }

    /// Returns true for a network that is primary in any namespace.
    pub(crate) fn is_primary(&self, key: &NetworkKey) -> bool {
        match key {
            NetworkKey::Default => false,
            NetworkKey::Attachment(name) => {
                let definition = self.definitions.get(name);
                definition.is_some_and(|it| it.primary_subnets().is_some())
            }
            NetworkKey::Cluster(name) => {
                let cluster = self.clusters.get(name);
                cluster.is_some_and(|it| it.primary.is_some())
            }
        }
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
            // The pod's namespace decides.
            NetworkName::Primary(_) => None,
            NetworkName::Cni(name) => {
                let of_name = self.by_cni_name.get(name)?;
                let own = of_name.iter().find(|name| name.namespace == *namespace);
                let definition = own.or_else(|| of_name.first())?;
                self.definitions.get(definition).map(NetworkDefinition::key)
            }
        }
    }
}
