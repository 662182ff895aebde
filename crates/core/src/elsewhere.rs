//! What something else on a node enforces.

/// What netqos leaves to others on a node, since they enforce it there: nothing is enforced twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Elsewhere {
    /// Policies, on the default network and on those that OVN-Kubernetes makes.
    pub policies: bool,
    /// Policies, on all networks.
    pub every_policy: bool,
    /// What a pod's annotations say of what it receives. What a profile says is not left.
    pub ingress: bool,
    /// What they say of what it sends.
    pub egress: bool,
}
