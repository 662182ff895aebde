//! How much of each kind was read: what nobody has read may be there.

use std::collections::{BTreeMap, BTreeSet};

/// How much of a kind was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extent {
    /// None of it.
    Nothing,
    /// The objects of this namespace.
    Namespace(String),
}

/// What was read; of a kind that is not named here, everything.
#[derive(Debug, Default)]
pub(crate) struct Known {
    limits: BTreeMap<String, Extent>,
    /// Kinds that the cluster does not have.
    absent: BTreeSet<String>,
}

/// The kinds that say which networks there are. Those of a namespace may be chosen by its labels.
const OF_NETWORKS: [&str; 4] = [
    "Namespace",
    "NetworkAttachmentDefinition",
    "UserDefinedNetwork",
    "ClusterUserDefinedNetwork",
];
/// The kinds that say what is allowed in a namespace.
const OF_QUOTAS: [&str; 2] = ["Namespace", "NetworkQoSQuota"];

impl Known {
    /// Of this kind no more was read.
    pub(crate) fn limit(&mut self, kind: &str, to: Extent) {
        self.limits.insert(kind.to_owned(), to);
    }

    /// The cluster does not have this kind.
    pub(crate) fn set_absent(&mut self, kind: &str) {
        self.absent.insert(kind.to_owned());
    }

    /// Returns true if the cluster does not have this kind.
    pub(crate) fn is_absent(&self, kind: &str) -> bool {
        self.absent.contains(kind)
    }

    /// True when all objects of a kind were read.
    pub(crate) fn all(&self, kind: &str) -> bool {
        !self.limits.contains_key(kind)
    }

    /// True when all objects of a kind in this namespace were read.
    pub(crate) fn all_in(&self, kind: &str, namespace: &str) -> bool {
        match self.limits.get(kind) {
            None => true,
            Some(Extent::Nothing) => false,
            Some(Extent::Namespace(read)) => read == namespace,
        }
    }

    /// True when it is known which networks there are.
    pub(crate) fn networks(&self) -> bool {
        OF_NETWORKS.iter().all(|kind| self.all(kind))
    }

    /// True when it is known which quotas hold in which namespaces.
    pub(crate) fn quotas(&self) -> bool {
        OF_QUOTAS.iter().all(|kind| self.all(kind))
    }
}
