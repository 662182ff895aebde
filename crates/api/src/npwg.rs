//! The documents of the Network Plumbing Working Group's multi-network specification, version 1.3.
//!
//! ```text
//!   k8s.v1.cni.cncf.io/networks ────────► parse_selections ─► interface_names ─┬─► PodSelections
//!   v1.multus-cni.io/default-network ───► parse_default_network ───────────────┘
//!   k8s.v1.cni.cncf.io/network-status ◄─► parse_status, write_status
//!
//!   NetworkAttachmentDefinition, spec.config ─► AttachmentNeeds ─┐
//!   NetworkAttachmentPolicy, several ─────────► AttachmentGrant ─┴─► Refusal
//! ```
//!
//! A tenant writes the annotations of its pods: each text and each number of entries here is bounded, and each value
//! has the form that the specification says before anything is done with it.

mod address;
mod error;
mod grant;
mod interfaces;
mod judge;
mod needs;
mod plugins;
mod pod;
mod selection;
mod status;
#[cfg(test)]
mod tests;

pub use address::{InfinibandGuid, MacAddress, RequestedAddress};
pub use error::{MOST_NAMED, SelectionError, escaped, first_named, listed, quoted, shortened};
pub use grant::{AttachmentGrant, AttachmentPolicy, Refusal};
pub use interfaces::{InterfaceNames, interface_names};
pub use judge::config_list;
pub use needs::{AttachmentNeeds, digest, is_meta_plugin};
pub use plugins::DEFAULT_ROUTE;
pub use pod::{PodSelections, PodSelectionsError};
pub use selection::{
    HostPort, NetworkSelection, PortProtocol, parse_default_network, parse_selections,
};
pub use status::{NetworkStatus, StatusDns, StatusError, parse_status, write_status};

/// The annotation of a pod that selects networks beside the default one.
pub const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";

/// The annotation of a pod that selects another default network (Multus).
pub const DEFAULT_NETWORK: &str = "v1.multus-cni.io/default-network";

/// The namespace of the NetworkAttachmentDefinitions that [`DEFAULT_NETWORK`] may name.
pub const DEFAULT_NETWORK_NAMESPACE: &str = "kube-system";

/// The directory of Multus' state, unless its key `cniDir` names another one.
pub const MULTUS_DIRECTORY: &str = "/var/lib/cni/multus";

/// The annotation of a pod with the networks that it is on, written once they are made.
pub const NETWORK_STATUS: &str = "k8s.v1.cni.cncf.io/network-status";

/// The name of [`NETWORK_STATUS`] before Multus 4.
pub const OLD_NETWORK_STATUS: &str = "k8s.v1.cni.cncf.io/networks-status";

/// The annotation of a NetworkAttachmentDefinition that names the devices which a pod's container requests.
pub const RESOURCE_NAME: &str = "k8s.v1.cni.cncf.io/resourceName";

/// The number of networks that a pod may select.
pub const MAX_SELECTIONS: usize = 64;
