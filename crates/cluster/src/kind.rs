//! The kinds of objects that matter to netqos.

use std::fmt;

/// A kind, as the API server serves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `v1`.
    Namespace,
    /// `v1`.
    Node,
    /// `v1`.
    Pod,
    /// `v1`.
    Service,
    /// `discovery.k8s.io/v1`.
    EndpointSlice,
    /// `k8s.ovn.org/v1alpha1`.
    NetworkQoS,
    /// `netqos.io/v1alpha1`.
    NetworkQoSQuota,
    /// `netqos.io/v1alpha1`.
    BandwidthProfile,
    /// `netqos.io/v1alpha1`; no plan depends on one.
    NetworkQoSDefault,
    /// `k8s.cni.cncf.io/v1`, of the Network Plumbing Working Group.
    NetworkAttachmentDefinition,
    /// `k8s.ovn.org/v1`, of OVN-Kubernetes.
    UserDefinedNetwork,
    /// `k8s.ovn.org/v1`, of OVN-Kubernetes.
    ClusterUserDefinedNetwork,
    /// `netqos.io/v1alpha1`: who is a peer, as the controller says.
    NetworkQoSPeerSlice,
    /// `netqos.io/v1alpha1`: what is in force on a node, as its agent says.
    NetworkQoSNodeReport,
    /// `v1`.
    ConfigMap,
    /// `slo.koordinator.sh/v1alpha1`, of Koordinator.
    NodeSlo,
    /// `netqos.io/v1alpha1`.
    NetworkAttachmentPolicy,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 17] = [
        Self::Namespace,
        Self::Node,
        Self::Pod,
        Self::Service,
        Self::EndpointSlice,
        Self::NetworkQoS,
        Self::NetworkQoSQuota,
        Self::BandwidthProfile,
        Self::NetworkAttachmentDefinition,
        Self::UserDefinedNetwork,
        Self::ClusterUserDefinedNetwork,
        Self::NetworkQoSPeerSlice,
        Self::NetworkQoSNodeReport,
        Self::NetworkQoSDefault,
        Self::ConfigMap,
        Self::NodeSlo,
        Self::NetworkAttachmentPolicy,
    ];

    /// Its name, in CamelCase.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Namespace => "Namespace",
            Self::Node => "Node",
            Self::Pod => "Pod",
            Self::Service => "Service",
            Self::EndpointSlice => "EndpointSlice",
            Self::NetworkQoS => "NetworkQoS",
            Self::NetworkQoSQuota => "NetworkQoSQuota",
            Self::BandwidthProfile => "BandwidthProfile",
            Self::NetworkQoSDefault => "NetworkQoSDefault",
            Self::NetworkAttachmentDefinition => "NetworkAttachmentDefinition",
            Self::UserDefinedNetwork => "UserDefinedNetwork",
            Self::ClusterUserDefinedNetwork => "ClusterUserDefinedNetwork",
            Self::NetworkQoSPeerSlice => "NetworkQoSPeerSlice",
            Self::NetworkQoSNodeReport => "NetworkQoSNodeReport",
            Self::ConfigMap => "ConfigMap",
            Self::NodeSlo => "NodeSLO",
            Self::NetworkAttachmentPolicy => "NetworkAttachmentPolicy",
        }
    }

    /// The API group; empty for Kubernetes' own core.
    pub const fn group(self) -> &'static str {
        match self {
            Self::Namespace | Self::Node | Self::Pod | Self::Service | Self::ConfigMap => "",
            Self::NodeSlo => "slo.koordinator.sh",
            Self::EndpointSlice => "discovery.k8s.io",
            Self::NetworkQoSQuota
            | Self::BandwidthProfile
            | Self::NetworkQoSDefault
            | Self::NetworkQoSPeerSlice
            | Self::NetworkQoSNodeReport
            | Self::NetworkAttachmentPolicy => "netqos.io",
            Self::NetworkAttachmentDefinition => "k8s.cni.cncf.io",
            Self::NetworkQoS | Self::UserDefinedNetwork | Self::ClusterUserDefinedNetwork => {
                "k8s.ovn.org"
            }
        }
    }

    /// The version in which it is read.
    pub const fn version(self) -> &'static str {
        match self {
            Self::NetworkQoS
            | Self::NetworkQoSPeerSlice
            | Self::NetworkQoSNodeReport
            | Self::NetworkQoSQuota
            | Self::BandwidthProfile
            | Self::NetworkQoSDefault
            | Self::NetworkAttachmentPolicy
            | Self::NodeSlo => "v1alpha1",
            _ => "v1",
        }
    }

    /// Its name in paths and in RBAC rules.
    pub const fn plural(self) -> &'static str {
        match self {
            Self::Namespace => "namespaces",
            Self::Node => "nodes",
            Self::Pod => "pods",
            Self::Service => "services",
            Self::EndpointSlice => "endpointslices",
            Self::NetworkQoS => "networkqoses",
            Self::NetworkQoSQuota => "networkqosquotas",
            Self::BandwidthProfile => "bandwidthprofiles",
            Self::NetworkQoSDefault => "networkqosdefaults",
            // As its definition has it, with hyphens.
            Self::NetworkAttachmentDefinition => "network-attachment-definitions",
            Self::UserDefinedNetwork => "userdefinednetworks",
            Self::ClusterUserDefinedNetwork => "clusteruserdefinednetworks",
            Self::NetworkQoSPeerSlice => "networkqospeerslices",
            Self::NetworkQoSNodeReport => "networkqosnodereports",
            Self::ConfigMap => "configmaps",
            Self::NodeSlo => "nodeslos",
            Self::NetworkAttachmentPolicy => "networkattachmentpolicies",
        }
    }

    /// `group/version`, or the version alone for the core.
    pub fn api_version(self) -> String {
        match self.group() {
            "" => self.version().to_owned(),
            group => format!("{group}/{}", self.version()),
        }
    }

    /// The name of the CRD of this kind.
    pub fn crd_name(self) -> String {
        format!("{}.{}", self.plural(), self.group())
    }

    /// True when its objects are in namespaces.
    pub const fn is_namespaced(self) -> bool {
        !matches!(
            self,
            Self::Namespace
                | Self::Node
                | Self::NetworkQoSQuota
                | Self::NetworkQoSDefault
                | Self::NetworkQoSNodeReport
                | Self::ClusterUserDefinedNetwork
                | Self::NetworkAttachmentPolicy
                | Self::NodeSlo
        )
    }

    /// True when every API server has it; the others come with a definition.
    pub const fn is_builtin(self) -> bool {
        matches!(
            self,
            Self::Namespace
                | Self::Node
                | Self::Pod
                | Self::Service
                | Self::EndpointSlice
                | Self::ConfigMap
        )
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
