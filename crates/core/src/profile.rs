//! What the owner of a namespace holds its pods to, by their labels.

use serde::Serialize;

use crate::{LabelSelector, Labels, Limits, ObjectName, Priority};

/// Limits for the pods of a namespace that a selector chooses (`BandwidthProfile`).
///
/// Each direction is decided by itself, and as a whole: rate, burst and latency of one place, since a
/// burst that was chosen for one rate says nothing of another. The annotations of the pod decide on its primary network, and
/// the selection of a network on that, where they limit the direction; else, among the profiles that select the pod and limit it, the one of
/// highest priority; among equals the smaller name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Profile {
    /// Its namespace and name.
    pub name: ObjectName,
    /// Which pods of its namespace it is for.
    pub pods: LabelSelector,
    /// Among profiles for one pod, the highest decides.
    pub priority: Priority,
    /// The limits of each interface of those pods.
    pub limits: Limits,
}

impl Profile {
    /// True when it is for a pod of its namespace with these labels.
    pub fn is_for(&self, pod: &Labels) -> bool {
        self.pods.matches(pod)
    }
}
