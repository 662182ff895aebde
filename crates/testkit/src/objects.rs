//! Objects of a cluster, as tests and benchmarks need them.

use std::net::IpAddr;

use netqos_core::objects::{NetworkName, Pod, PodAddresses};
use netqos_core::{Labels, Limits, ObjectName, PodId};

/// A running pod with these addresses on the default network, and `uid-NAME` for a uid.
pub fn mk_pod(
    name: ObjectName,
    labels: Labels,
    node: &str,
    addresses: impl IntoIterator<Item = IpAddr>,
) -> Pod {
    Pod {
        id: PodId {
            uid: format!("uid-{}", name.name).into(),
            name,
        },
        labels,
        node: Some(node.into()),
        host_network: false,
        finished: false,
        starting: false,
        limits: Limits::default(),
        invalid_limits: None,
        addresses: vec![PodAddresses {
            network: NetworkName::Default,
            interface: None,
            addresses: addresses.into_iter().collect(),
        }],
        network_annotations: None,
        config_hash: None,
    }
}
