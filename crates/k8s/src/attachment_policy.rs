//! The resource `NetworkAttachmentPolicy` (netqos.io/v1alpha1): permissions for NetworkAttachmentDefinitions, whose
//! configurations are executed as root on nodes.
// Two columns of one type are no mistake.
#![allow(clippy::duplicated_attributes)]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::schema;

/// Permissions. A list that is absent permits nothing.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "netqos.io",
    version = "v1alpha1",
    kind = "NetworkAttachmentPolicy",
    plural = "networkattachmentpolicies",
    singular = "networkattachmentpolicy",
    shortname = "netattpol",
    category = "netqos",
    derive = "PartialEq",
    doc = "NetworkAttachmentPolicy permits what the NetworkAttachmentDefinitions of namespaces may use of a node. Several that select a namespace are united; a definition that needs something that none of them permits attaches no pod.",
    printcolumn(
        name = "Plugins",
        type_ = "string",
        json_path = ".spec.pluginTypes",
        description = "The permitted plugin types"
    ),
    printcolumn(name = "Masters", type_ = "string", json_path = ".spec.masters"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct NetworkAttachmentPolicySpec {
    /// The namespaces with the definitions that the policy is about. Absent or empty: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector", extend("default" = {}))]
    pub namespace_selector: Option<LabelSelector>,

    /// The namespaces whose pods may select these definitions, too. Empty: all of them. Absent: only pods of the
    /// definition's own namespace may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector")]
    pub open_to: Option<LabelSelector>,

    /// Plugin types, those of IPAM included: macvlan, host-local; * for all. At most 64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::plugin_types")]
    pub plugin_types: Option<Vec<String>>,

    /// Interfaces of the node: a name, a beginning with * behind it, or default-route for the interface of the node's
    /// default route. At most 64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::host_names")]
    pub masters: Option<Vec<String>>,

    /// Devices of the node, in the forms of masters: names, hardware addresses, paths below /sys, PCI addresses. At
    /// most 64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::host_names")]
    pub devices: Option<Vec<String>>,

    /// Absolute paths of the node, with all that is below them. At most 64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::host_paths")]
    pub host_paths: Option<Vec<String>>,

    /// Keys of plugins that change the node's routes or packet filters, or reach other pods, behind the plugin's type:
    /// bridge.isGateway. ptp.ipam: the node routes the addresses of the definition's choice into pods, also those of
    /// others. portmap.portMappings: pods take ports of the node. At most 64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::host_keys")]
    pub host_keys: Option<Vec<String>>,

    /// Definitions that may do anything, by the SHA-256 of their spec.config in 64 hexadecimal digits. At most 256.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::digests")]
    pub digests: Option<Vec<String>>,
}
