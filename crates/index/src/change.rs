//! What is fed to an index, of a node or of peers.

use std::sync::Arc;

use netqos_core::objects::{
    ClusterNetwork, EndpointSlice, LocalInterface, Namespace, NetworkDefinition, PeerSlice, Pod,
    Service,
};
use netqos_core::{Elsewhere, ObjectName, PodId, Policy, Profile, Quota};

/// An object that is there, new or changed, or is gone.
///
/// Saying twice that an object is there, or is gone, changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A namespace is there. One that nobody has spoken of counts as one with the label that
    /// Kubernetes gives to each, `kubernetes.io/metadata.name`.
    Namespace(Namespace),
    /// The namespace of this name is gone; what is in it stays until it is said to be gone, too.
    NamespaceGone(Arc<str>),
    /// A pod is there. It takes the place of another one of the same name.
    Pod(Pod),
    /// This pod is gone. Another one of the same name stays.
    PodGone(PodId),
    /// A definition of a network is there.
    NetworkDefinition(NetworkDefinition),
    /// It is gone.
    NetworkDefinitionGone(ObjectName),
    /// A cluster-wide network is there.
    ClusterNetwork(ClusterNetwork),
    /// It is gone.
    ClusterNetworkGone(Arc<str>),
    /// A policy is there.
    Policy(Policy),
    /// It is gone.
    PolicyGone(ObjectName),
    /// A quota is there.
    Quota(Quota),
    /// The quota of this name is gone.
    QuotaGone(Arc<str>),
    /// A bandwidth profile is there.
    Profile(Profile),
    /// It is gone.
    ProfileGone(ObjectName),
    /// A service is there.
    Service(Service),
    /// It is gone.
    ServiceGone(ObjectName),
    /// A slice of a service's endpoints is there.
    EndpointSlice(EndpointSlice),
    /// It is gone.
    EndpointSliceGone(ObjectName),
    /// A slice of a peer set is there.
    PeerSlice(PeerSlice),
    /// It is gone.
    PeerSliceGone(ObjectName),
    /// The interfaces that a pod has on this node: all of them, in place of what was said before.
    Attachments {
        /// Which pod.
        pod: ObjectName,
        /// Which of several of this name. `None`: whichever is there.
        uid: Option<Arc<str>>,
        /// Its interfaces. None of them: it is gone from this node, or was never here.
        interfaces: Vec<LocalInterface>,
    },
    /// This is enforced by something else on the node, and is to be left out of the plan.
    Elsewhere(Elsewhere),
}
