//! The resource `NetworkQoSPeerSlice` (netqos.io/v1alpha1), by which the controller tells agents who
//! is a peer.
//!
//! Like an `EndpointSlice` it is plain data without a `spec`: nobody asks for anything by it.

use std::collections::BTreeMap;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::KubeSchema;
use netqos_core::objects::PeerSlice;
use serde::{Deserialize, Serialize};

use crate::own::plain_resource;
use crate::schema;

/// The label of a slice that says which peer set it is of: 16 hexadecimal digits, the digest of the
/// set's namespaces, pod selector and network. An agent watches by it.
pub const PEER_SET_LABEL: &str = "netqos.io/peer-set";

/// NetworkQoSPeerSlice holds addresses of pods that a rule of a NetworkQoS chooses as destinations:
/// a part of one peer set, on one network. The controller makes, changes and deletes them; what
/// anybody else writes is put right again. The label netqos.io/peer-set says which set it is.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkQoSPeerSlice {
    #[serde(skip_deserializing, serialize_with = "api_version")]
    #[schemars(skip)]
    api_version: (),

    #[serde(skip_deserializing, serialize_with = "kind")]
    #[schemars(skip)]
    kind: (),

    /// Name, namespace and labels.
    #[schemars(skip)]
    pub metadata: ObjectMeta,

    /// The network that the addresses are on: default for the pods' default network,
    /// NAMESPACE/NAME for that of a NetworkAttachmentDefinition, */NAME for that of a
    /// ClusterUserDefinedNetwork.
    #[schemars(length(min = 1, max = 317))]
    pub network: String,

    /// IPv4 and IPv6 addresses. The set's addresses are those of all its slices; one that is in
    /// several counts once. At most 256.
    #[schemars(schema_with = "schema::addresses")]
    pub addresses: Vec<String>,
}

impl NetworkQoSPeerSlice {
    /// The object of a slice: its name, the label, network and addresses, and nothing else. An IPv4
    /// address written as IPv6, which a server refuses, is written as the IPv4 address.
    pub fn of(slice: &PeerSlice) -> Self {
        let addresses = slice.addresses.iter();
        let labels = BTreeMap::from([(PEER_SET_LABEL.to_owned(), slice.set.0.to_string())]);
        Self {
            metadata: ObjectMeta {
                namespace: Some(slice.name.namespace.to_string()),
                name: Some(slice.name.name.to_string()),
                labels: Some(labels),
                ..ObjectMeta::default()
            },
            network: slice.network.to_string(),
            addresses: addresses.map(|it| it.to_canonical().to_string()).collect(),
            ..Self::default()
        }
    }
}

plain_resource!(
    NetworkQoSPeerSlice,
    "networkqospeerslices",
    NamespaceResourceScope
);
