//! The resource `NetworkQoS` (k8s.ovn.org/v1alpha1).
//!
//! The comments on fields are what `kubectl explain` prints. Fields that both sources have mean the
//! same in both; see the table for the others. An object is written in one of the two spellings.
//!
//! | okep-4380 | OVN-Kubernetes | |
//! |---|---|---|
//! | `netAttachRefs` | `networkSelectors` | by name; by kind and labels |
//! | `classifier.port` | `classifier.ports` | one; several |
//!
//! Numbers are wider here than the schema allows, so that one out of range is told with its path.
//! An optional field that is `null` is absent, as to an API server.
// Two columns of one type are no mistake.
#![allow(clippy::duplicated_attributes)]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::schema;

/// Says whether an object is in force: `enforce` (also when it is absent), `shadow`, or
/// `shadow:0,2` for single rules, counted from 0.
pub const MODE_ANNOTATION: &str = "netqos.io/mode";

/// What the object asks for.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "k8s.ovn.org",
    version = "v1alpha1",
    kind = "NetworkQoS",
    plural = "networkqoses",
    singular = "networkqos",
    shortname = "nqos",
    category = "netqos",
    namespaced,
    status = "NetworkQosStatus",
    derive = "PartialEq",
    doc = "NetworkQoS marks what pods of its namespace send with a DSCP value, and holds it to a rate, by destination, protocol and port.",
    printcolumn(
        name = "Priority",
        type_ = "integer",
        json_path = ".spec.priority",
        description = "Objects of higher priority win"
    ),
    printcolumn(
        name = "Rules",
        type_ = "integer",
        json_path = ".status.rules",
        description = "How many rules it has"
    ),
    printcolumn(
        name = "Pods",
        type_ = "integer",
        json_path = ".status.selectedPods",
        description = "How many pods it selects"
    ),
    printcolumn(
        name = "Nodes",
        type_ = "string",
        json_path = ".status.nodes",
        description = "On how many nodes it is in force, of those that its pods are on"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status",
        description = "Whether it is in force on all pods that it selects"
    ),
    printcolumn(name = "Status", type_ = "string", json_path = ".status.status"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.netAttachRefs) == has(oldSelf.netAttachRefs) && (!has(self.netAttachRefs) || self.netAttachRefs == oldSelf.netAttachRefs)")
        .message("netAttachRefs is immutable: make another object").field_path(".netAttachRefs"),
    validation = Rule::new("has(self.networkSelectors) == has(oldSelf.networkSelectors) && (!has(self.networkSelectors) || self.networkSelectors == oldSelf.networkSelectors)")
        .message("networkSelectors is immutable: make another object").field_path(".networkSelectors"),
    validation = Rule::new("!((has(self.netAttachRefs) || self.egress.exists(r, has(r.classifier) && has(r.classifier.port))) && (has(self.networkSelectors) || self.egress.exists(r, has(r.classifier) && has(r.classifier.ports))))")
        .message("netAttachRefs and classifier.port are of one spelling, networkSelectors and classifier.ports of the other: use one of the two"),
)]
pub struct NetworkQosSpec {
    /// On which of the pods' networks the rules are in force, by name. Without it, and without
    /// networkSelectors: on the pods' default network. It cannot be changed, added or removed
    /// later. At most 20.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 20))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub net_attach_refs: Option<Vec<NetworkAttachmentRef>>,

    /// On which of the pods' networks the rules are in force, by kind and labels. Without it, and
    /// without netAttachRefs: on the pods' default network. It cannot be changed, added or removed
    /// later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 5))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["networkSelectionType".to_owned()]))]
    pub network_selectors: Option<Vec<NetworkSelector>>,

    /// Which pods of the object's namespace the rules are for. Absent or empty: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector")]
    pub pod_selector: Option<LabelSelector>,

    /// Among objects whose rules match a packet, the one of highest priority decides. 0 to 100.
    #[schemars(range(min = 0, max = 100))]
    pub priority: i64,

    /// The rules, 1 to 20. Among those that match a packet, the last one decides.
    #[schemars(length(min = 1, max = 20))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub egress: Vec<EgressRule>,
}

/// What happens to packets that the classifier matches. Needs dscp, bandwidth.rate, or both.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.dscp) || (has(self.bandwidth) && has(self.bandwidth.rate))")
        .message("a rule needs dscp, bandwidth.rate, or both"),
)]
pub struct EgressRule {
    /// The DSCP value that packets are marked with, 0 to 63. Absent: they keep what they have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 63))]
    pub dscp: Option<i64>,

    /// Which packets. Absent or empty: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classifier: Option<Classifier>,

    /// The rate that packets are held to. All pods of the rule on a node share it, IPv4 and IPv6
    /// together. Absent or empty: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Bandwidth>,
}

/// Which packets a rule is for: those that go to one of the destinations, and to one of the ports.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!(has(self.port) && has(self.ports))")
        .message("port and ports exclude each other"),
)]
pub struct Classifier {
    /// Destinations; one of them is enough. Absent or empty: all. At most 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub to: Option<Vec<Destination>>,

    /// The protocol and destination port. Absent or empty: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<Port>,

    /// Protocols and destination ports; one of them is enough. Absent or empty: all. At most 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub ports: Option<Vec<Port>>,
}

/// A destination: addresses, or pods. Empty: anywhere.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!(has(self.ipBlock) && (has(self.podSelector) || has(self.namespaceSelector)))")
        .message("Can't specify both podSelector/namespaceSelector and ipBlock"),
)]
pub struct Destination {
    /// Pods by their labels, in the object's own namespace, or in those that namespaceSelector
    /// chooses. Empty: all pods there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector")]
    pub pod_selector: Option<LabelSelector>,

    /// Namespaces by their labels. Empty: all namespaces. Without podSelector: all pods in them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector")]
    pub namespace_selector: Option<LabelSelector>,

    /// Addresses by prefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip_block: Option<IpBlock>,
}

/// Addresses by prefix.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    // The API server estimates this rule for the longest lists: cidr(self.cidr) is parsed once, outside of the walk.
    validation = Rule::new("!has(self.except) || !isCIDR(self.cidr) || [cidr(self.cidr)].all(c, self.except.all(e, c.containsCIDR(e)))")
        .message("every except has to be inside of cidr").field_path(".except"),
)]
pub struct IpBlock {
    /// The addresses: an IPv4 or IPv6 prefix such as 10.0.0.0/8 or 2001:db8::/64.
    #[schemars(length(max = 49))]
    #[x_kube(
        validation = Rule::new("isCIDR(self)")
            .message("not a CIDR such as 10.0.0.0/8 or 2001:db8::/64"),
    )]
    pub cidr: String,

    /// Prefixes inside of cidr that are not meant. At most 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::except")]
    pub except: Option<Vec<String>>,
}

/// A protocol and a destination port.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Port {
    /// TCP, UDP or SCTP. Absent: any of the three. An entry without protocol and port says nothing: where no
    /// entry says more, the rule is for packets of all protocols.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::protocol")]
    pub protocol: Option<String>,

    /// The port, 1 to 65535. Absent: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i64>,
}

/// A rate, and how much may exceed it for a moment.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.burst) || has(self.rate)")
        .message("burst needs rate").field_path(".burst"),
)]
pub struct Bandwidth {
    /// The rate in kbps (1,000 bits per second), 1 to 4294967295.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4_294_967_295_i64))]
    pub rate: Option<i64>,

    /// What may pass at line speed after a pause, in kilobits (1,000 bits), 1 to 4294967295. Needs
    /// rate. Absent: netqos chooses; too small to reach the rate: netqos raises it, and says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4_294_967_295_i64))]
    pub burst: Option<i64>,
}

/// A network by its name. Only kind, namespace and name are looked at.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkAttachmentRef {
    /// The group and version of the network's kind. Not looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 317))]
    pub api_version: Option<String>,

    /// NetworkAttachmentDefinition, UserDefinedNetwork or ClusterUserDefinedNetwork.
    #[schemars(schema_with = "schema::network_kind")]
    pub kind: String,

    /// The network's name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,

    /// The network's namespace. Absent: the object's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub namespace: Option<String>,

    /// Not looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub uid: Option<String>,

    /// Not looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub resource_version: Option<String>,

    /// Not looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub field_path: Option<String>,
}

/// Networks of one kind, by labels. The selector that belongs to the kind is set, and no other.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.clusterUserDefinedNetworkSelector) == (self.networkSelectionType == 'ClusterUserDefinedNetworks')")
        .message("Inconsistent selector: both networkSelectionType ClusterUserDefinedNetworks and clusterUserDefinedNetworkSelector have to be set or neither"),
    validation = Rule::new("has(self.primaryUserDefinedNetworkSelector) == (self.networkSelectionType == 'PrimaryUserDefinedNetworks')")
        .message("Inconsistent selector: both networkSelectionType PrimaryUserDefinedNetworks and primaryUserDefinedNetworkSelector have to be set or neither"),
    validation = Rule::new("has(self.secondaryUserDefinedNetworkSelector) == (self.networkSelectionType == 'SecondaryUserDefinedNetworks')")
        .message("Inconsistent selector: both networkSelectionType SecondaryUserDefinedNetworks and secondaryUserDefinedNetworkSelector have to be set or neither"),
    validation = Rule::new("has(self.networkAttachmentDefinitionSelector) == (self.networkSelectionType == 'NetworkAttachmentDefinitions')")
        .message("Inconsistent selector: both networkSelectionType NetworkAttachmentDefinitions and networkAttachmentDefinitionSelector have to be set or neither"),
    validation = Rule::new("!(self.networkSelectionType in ['PrimaryUserDefinedNetworks', 'SecondaryUserDefinedNetworks'])")
        .message("Unsupported network selection type").field_path(".networkSelectionType"),
)]
pub struct NetworkSelector {
    /// The kind of the networks. PrimaryUserDefinedNetworks and SecondaryUserDefinedNetworks are
    /// words of other resources, too; here they are refused, as by OVN-Kubernetes.
    #[schemars(schema_with = "schema::network_selection_type")]
    pub network_selection_type: String,

    /// ClusterUserDefinedNetworks by their labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_user_defined_network_selector: Option<ClusterNetworkSelector>,

    /// Refused; see networkSelectionType.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primary_user_defined_network_selector: Option<PrimaryNetworkSelector>,

    /// Refused; see networkSelectionType.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secondary_user_defined_network_selector: Option<NamespacedNetworkSelector>,

    /// NetworkAttachmentDefinitions by their labels and those of their namespaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_attachment_definition_selector: Option<NamespacedNetworkSelector>,
}

/// ClusterUserDefinedNetworks by their labels.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterNetworkSelector {
    /// The labels of the networks. Empty: all of them.
    #[schemars(schema_with = "schema::label_selector")]
    pub network_selector: LabelSelector,
}

/// The primary networks of namespaces.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PrimaryNetworkSelector {
    /// The labels of the namespaces. Empty: all of them.
    #[schemars(schema_with = "schema::label_selector")]
    pub namespace_selector: LabelSelector,
}

/// Networks that are objects of a namespace, by labels.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NamespacedNetworkSelector {
    /// The labels of the namespaces. Empty: all of them.
    #[schemars(schema_with = "schema::label_selector")]
    pub namespace_selector: LabelSelector,

    /// The labels of the networks. Empty: all of them.
    #[schemars(schema_with = "schema::label_selector")]
    pub network_selector: LabelSelector,
}

/// What became of the object.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkQosStatus {
    /// In a few words, whether the object is in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub status: Option<String>,

    /// How many rules it has: no column can count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 9_007_199_254_740_991_i64))]
    pub rules: Option<i64>,

    /// How many pods it selects. While nothing else changes, it is brought up to date once a minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 9_007_199_254_740_991_i64))]
    pub selected_pods: Option<i64>,

    /// On how many nodes it is in force, of those that its pods are on: 2/3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub nodes: Option<String>,

    /// In detail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Option<Vec<Condition>>,
}
