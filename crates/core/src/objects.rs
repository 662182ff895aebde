//! The Kubernetes objects that decide what a policy means, reduced to what decides it.
//!
//! They come from an API server or from a folder of manifests; `netqos-k8s` reads them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

use crate::plan::SetId;
use crate::{
    Digest, Direction, LabelSelector, Labels, Limits, NetworkKey, ObjectName, PodId, Protocol,
};

/// A `Namespace`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// Its name.
    pub name: Arc<str>,
    /// Its labels; Kubernetes gives each one `kubernetes.io/metadata.name`.
    pub labels: Labels,
}

/// A `Node`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: Arc<str>,
    /// Its labels.
    pub labels: Labels,
    /// Those of its annotations that netqos knows.
    pub annotations: BTreeMap<String, String>,
}

/// A `Pod`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Which.
    pub id: PodId,
    /// Its labels.
    pub labels: Labels,
    /// `spec.nodeName`; `None` until it is scheduled.
    pub node: Option<Arc<str>>,
    /// `spec.hostNetwork`: it has no interface of its own, and its addresses are the node's.
    pub host_network: bool,
    /// It has ended (`Succeeded`, `Failed`), or is on its way out with nothing left running: its
    /// addresses may be another pod's already.
    pub finished: bool,
    /// It waits to be begun (`Pending`), and neither an address nor a container of it is known: an
    /// interface of it is not to be expected yet. Never so of a pod that is not said to wait.
    pub starting: bool,
    /// The limits of its primary network's interface, as far as its annotations can be parsed. They
    /// precede the profiles of its namespace, per direction.
    pub limits: Limits,
    /// The mistakes in the annotations of a direction with a bandwidth. `None`: no mistake.
    pub invalid_limits: Option<Box<InvalidLimits>>,
    /// Its addresses, as far as its status and annotations say.
    pub addresses: Vec<PodAddresses>,
    /// The annotations about its networks, as they are written. `None`: it has none of them.
    pub network_annotations: Option<Box<NetworkAnnotations>>,
    /// The annotation `kubernetes.io/config.hash` of a static pod, by which the node knows it in place of its uid.
    pub config_hash: Option<Arc<str>>,
}

/// The annotations about a pod's networks, as they are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkAnnotations {
    /// `k8s.v1.cni.cncf.io/networks`.
    pub networks: Option<Arc<str>>,
    /// `v1.multus-cni.io/default-network`.
    pub default_network: Option<Arc<str>>,
    /// The digest of `k8s.v1.cni.cncf.io/network-status`, the networks that the pod is on.
    pub status: Option<Digest>,
}

/// The mistakes in a pod's bandwidth annotations, per direction. A direction without a bandwidth
/// annotation has none here: its pod asks for no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InvalidLimits {
    /// Of the traffic to the pod.
    pub ingress: Option<String>,
    /// Of the traffic from the pod.
    pub egress: Option<String>,
}

impl Pod {
    /// True where a pod that its node knows by this name and uid is this one. The kubelet knows a static pod by the hash of
    /// its manifest. (Anyone who may write a pod's annotations may write any hash: it says nothing without the name.)
    pub fn is_known_by(&self, uid: &str) -> bool {
        self.id.is_known_by(uid) || self.config_hash.as_deref() == Some(uid)
    }
}

impl InvalidLimits {
    /// The mistakes of one direction.
    pub fn of(&self, direction: Direction) -> Option<&str> {
        match direction {
            Direction::Ingress => self.ingress.as_deref(),
            Direction::Egress => self.egress.as_deref(),
        }
    }
}

/// The addresses of one of a pod's interfaces, as its status or an annotation says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodAddresses {
    /// The network that the interface is on.
    pub network: NetworkName,
    /// The interface's name in the pod, where that is said.
    pub interface: Option<Arc<str>>,
    /// The addresses; none on a network without IPAM.
    pub addresses: BTreeSet<IpAddr>,
}

/// A network as a pod's status names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NetworkName {
    /// The default network.
    Default,
    /// That of the `NetworkAttachmentDefinition` of this name.
    Attachment(ObjectName),
    /// The CNI network of this name (`name` of its configuration).
    Cni(Arc<str>),
    /// The primary network of the pod's namespace: so an annotation calls the network of the
    /// `NetworkAttachmentDefinition` of this name, which is to be verified. `None`: the node itself found the interface.
    Primary(Option<ObjectName>),
}

/// A `NetworkAttachmentDefinition`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkDefinition {
    /// Its namespace and name.
    pub name: ObjectName,
    /// Its labels.
    pub labels: Labels,
    /// `name` of the CNI configuration in it; the definition's own where that has none.
    pub cni_name: Arc<str>,
    /// The network of several namespaces that it is of: the `ClusterUserDefinedNetwork` that owns it, or
    /// `cni:NAME` for one that OVN-Kubernetes knows by the name of its CNI configuration alone. No object
    /// has a name with a colon.
    pub cluster_network: Option<Arc<str>>,
    /// Made by OVN-Kubernetes: the type of its CNI configuration is `ovn-k8s-cni-overlay`.
    pub is_of_ovn: bool,
    /// The means to attach a pod to it.
    pub attachment: AttachmentConfig,
    /// The UID of the `UserDefinedNetwork` or `ClusterUserDefinedNetwork` of its name that owns it, as OVN-Kubernetes writes
    /// its owner; empty in a manifest without one. `None`: it has no such owner, or the configuration of another plugin.
    pub owner_uid: Option<Arc<str>>,
    /// The primary network of its namespace, as the `UserDefinedNetwork` of this name says. `None`: that is not one. It counts
    /// for the definition that the object owns alone.
    pub primary: Option<UserNetwork>,
}

/// A `UserDefinedNetwork` that is the primary network of its namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserNetwork {
    /// `metadata.uid`; empty in a manifest without one.
    pub uid: Arc<str>,
    /// The subnets of its pods' addresses.
    pub subnets: Vec<IpNet>,
}

/// The means to attach a pod to the network of a `NetworkAttachmentDefinition`, as they are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttachmentConfig {
    /// `metadata.resourceVersion`; empty in a manifest.
    pub resource_version: Arc<str>,
    /// `spec.config`. `None`: a file on the node has it, of the definition's name.
    pub config: Option<Arc<str>>,
    /// The annotation `k8s.v1.cni.cncf.io/resourceName`: the devices that a container of the pod requests.
    pub resource_name: Option<Arc<str>>,
}

/// A `ClusterUserDefinedNetwork`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterNetwork {
    /// Its name.
    pub name: Arc<str>,
    /// Its labels.
    pub labels: Labels,
    /// The namespaces whose primary network it is. `None`: of none.
    pub primary: Option<PrimaryNetwork>,
}

/// A primary network of several namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrimaryNetwork {
    /// `metadata.uid`; empty in a manifest without one.
    pub uid: Arc<str>,
    /// The namespaces of its pods.
    pub namespaces: LabelSelector,
    /// The subnets of its pods' addresses.
    pub subnets: Vec<IpNet>,
}

/// A `Service` with virtual addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Its namespace and name.
    pub name: ObjectName,
    /// `spec.clusterIPs`; none for a headless one.
    pub addresses: BTreeSet<IpAddr>,
    /// Its ports.
    pub ports: Vec<ServicePortSpec>,
}

/// A port of a `Service`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServicePortSpec {
    /// Its name, by which endpoint slices refer to it; empty for a single one without.
    pub name: Arc<str>,
    /// The protocol.
    pub protocol: Protocol,
    /// The port on the virtual address.
    pub port: u16,
}

/// An `EndpointSlice` (discovery.k8s.io/v1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointSlice {
    /// Its namespace and name.
    pub name: ObjectName,
    /// The Service in the same namespace that it is of (label `kubernetes.io/service-name`).
    pub service: Arc<str>,
    /// Its ports: name, protocol, and the port on the endpoints.
    pub ports: Vec<ServicePortSpec>,
    /// The addresses of endpoints that serve (`conditions.serving`, absent means yes).
    pub addresses: BTreeSet<IpAddr>,
}

/// A `NetworkQoSPeerSlice`: some of the addresses of a peer set, as the controller found them out.
/// The set's addresses are those of all its slices together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerSlice {
    /// Its namespace and name. It is in the namespace that [`PeerSet::home`] says, or does not count.
    ///
    /// [`PeerSet::home`]: crate::plan::PeerSet::home
    pub name: ObjectName,
    /// The peer set that it is of.
    pub set: SetId,
    /// The network of that set.
    pub network: NetworkKey,
    /// Addresses of the set.
    pub addresses: BTreeSet<IpAddr>,
}

/// An interface of a pod of this node, as found on the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalInterface {
    /// Its network, and whether it is the pod's first one.
    pub network: NetworkName,
    /// Its name in the pod.
    pub name: Arc<str>,
    /// Its addresses.
    pub addresses: BTreeSet<IpAddr>,
    /// Where it is.
    pub attach: crate::plan::Attach,
    /// Its bandwidth, by the record of `netqos-multinet`, which names all attachments of the pod. `None`: that plugin
    /// did not attach the pod.
    pub recorded: Option<RecordedLimits>,
}

/// The bandwidth of an attachment that `netqos-multinet` made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordedLimits {
    /// The limits that the pod selects for the attachment, or else those of the network's configuration. Those of the pod's
    /// annotations of bandwidth are for the primary network, and not among them.
    pub limits: Limits,
    /// Of the default network, the limits that the pod's annotation for that network requests. They hold beside those of the
    /// pod's annotations of bandwidth: the lower rate counts.
    pub selected: Limits,
    /// Another plugin than `bandwidth` enforces them.
    pub is_delegated: bool,
}

impl NetworkDefinition {
    /// The network that it is of.
    pub fn key(&self) -> NetworkKey {
        match &self.cluster_network {
            Some(name) => NetworkKey::Cluster(name.clone()),
            None => NetworkKey::Attachment(self.name.clone()),
        }
    }

    /// Returns true if the user-defined network of its name with this UID owns it. A tenant may write a definition of that
    /// name, and an owner of its own; but not the UID of an object whose definition OVN-Kubernetes has made.
    pub fn is_owned_by(&self, uid: &str) -> bool {
        let owner = self.owner_uid.as_deref();
        owner.is_some_and(|owner| uid.is_empty() || owner == uid)
    }

    /// Returns the subnets of the primary network of its namespace, if its `UserDefinedNetwork` makes it that one.
    pub fn primary_subnets(&self) -> Option<&[IpNet]> {
        let primary = self.primary.as_ref();
        let primary = primary.filter(|it| self.is_owned_by(&it.uid))?;
        Some(&primary.subnets)
    }
}
