//! Virtual addresses, of which the hook sees packets before kube-proxy rewrites them.
//!
//! Of the backends of a Service's port, one of each kind is told to the program: those of a kind
//! are alike to every rule list of the node. It classifies a packet as one to each of them, and
//! where all say the same, as for most Services there is but one to ask, the first packet is
//! classified as the last. Where they differ, conntrack is asked which backend the connection goes
//! to; the packet with which it begins, of which conntrack does not know yet, is classified by the
//! virtual address itself.

use std::collections::{BTreeMap, BTreeSet};

use netqos_bpf::rules::{SERVICE_KINDS, Service, ServiceKey};
use netqos_core::plan::{Backend, ChainId, ServicePort};
use netqos_core::{NetworkKey, NodePlan};

use super::tables::ChainTables;

/// The program's name for a Service's port.
pub(super) fn key(port: &ServicePort) -> ServiceKey {
    ServiceKey::new(port.address, port.protocol.number(), port.port)
}

/// What the program is told of a Service's port; `None` where nothing stands behind it.
pub(super) fn entry(
    plan: &NodePlan,
    chains: &BTreeMap<ChainId, ChainTables>,
    port: &ServicePort,
    backends: &BTreeSet<Backend>,
) -> Option<Service> {
    let class = |backend: &Backend| plan.peers.get(&(NetworkKey::Default, backend.address));
    let is_like = |one: &Backend, other: &Backend| {
        class(one) == class(other)
            && chains.values().all(|chain| {
                chain.is_like(
                    port.protocol,
                    (one.address, one.port),
                    (other.address, other.port),
                )
            })
    };
    let mut kinds: Vec<&Backend> = Vec::new();
    for backend in backends {
        if !kinds.iter().any(|kind| is_like(kind, backend)) {
            kinds.push(backend);
            // It does not matter how many more there are.
            if kinds.len() > SERVICE_KINDS {
                break;
            }
        }
    }
    let kinds: Vec<_> = kinds
        .into_iter()
        .map(|kind| (kind.address, kind.port))
        .collect();
    (!kinds.is_empty()).then(|| Service::new(&kinds))
}
