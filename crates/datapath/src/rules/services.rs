//! Virtual addresses, of which the hook sees packets before kube-proxy rewrites them.
//!
//! Where all backends of a Service's port are alike to every rule list of the node, any of them
//! stands for all, and the first packet is classified as the last. Where they differ, which one a
//! packet goes to is not known at the hook, and it is classified by the virtual address itself.

use std::collections::{BTreeMap, BTreeSet};

use netqos_bpf::rules::{Service, ServiceKey};
use netqos_core::plan::{Backend, ChainId, ServicePort};
use netqos_core::{NetworkKey, NodePlan};

use super::tables::ChainTables;

/// The entry of a Service's port; `None` where its backends are not alike.
pub(super) fn entry(
    plan: &NodePlan,
    chains: &BTreeMap<ChainId, ChainTables>,
    port: &ServicePort,
    backends: &BTreeSet<Backend>,
) -> Option<(ServiceKey, Service)> {
    let first = backends.first()?;
    let class = |backend: &Backend| {
        let key = (NetworkKey::Default, backend.address);
        plan.peers.get(&key)
    };
    let is_like_first = |backend: &Backend| {
        backend.port == first.port
            && backend.address.is_ipv4() == first.address.is_ipv4()
            && class(backend) == class(first)
            && chains
                .values()
                .all(|chain| chain.by_prefix(backend.address) == chain.by_prefix(first.address))
    };
    let key = ServiceKey::new(port.address, port.protocol.number(), port.port);
    backends
        .iter()
        .all(is_like_first)
        .then(|| (key, Service::like(first.address, first.port)))
}
