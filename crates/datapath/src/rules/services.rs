//! Virtual addresses, of which the hook sees packets before kube-proxy rewrites them.
//!
//! Of the backends of a Service's port, one of each kind is told to the program: those of a kind
//! are alike to every rule list of the node. It classifies a packet as one to each of them, and
//! where all say the same, as for most Services there is but one to ask, the first packet is
//! classified as the last. Where they differ, conntrack is asked which backend the connection goes
//! to; the packet with which it begins, of which conntrack does not know yet, is classified by the
//! virtual address itself.
//!
//! Where the kinds are more than an entry has room for, the Service is *crowded*: each rule list has
//! an entry of its own ([`super::crowded`]), of the few backends that tell for it whether all are alike.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

use netqos_bpf::rules::{SERVICE_KINDS, Service, ServiceKey};
use netqos_core::plan::{Backend, ChainId, ServicePort};
use netqos_core::{NetworkKey, NodePlan, PlanDelta, Problem, Reason};

use super::chains::put;
use super::crowded::CrowdedPorts;
use super::engine::RuleDatapath;
use super::problems::{self, Subject};
use super::tables::ChainTables;
use crate::Result;

/// What the program was told.
#[derive(Debug, Default)]
pub(super) struct Services {
    entries: HashSet<ServiceKey>,
    /// The ports whose backends are of several kinds.
    mixed: BTreeSet<ServicePort>,
    /// The backends of ports that have several, which may become alike, or different.
    several: BTreeMap<ServicePort, BTreeSet<Backend>>,
    by_backend: HashMap<IpAddr, BTreeSet<ServicePort>>,
    /// Those that have the kinds of before as well as those of now, until all is as it shall be.
    wide: BTreeSet<ServicePort>,
    pub(super) crowded: CrowdedPorts,
}

impl Services {
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// The program's names of all.
    pub(super) fn keys(&self) -> HashSet<ServiceKey> {
        let entries = self.entries.iter().copied();
        entries.chain(self.wide.iter().map(key)).collect()
    }

    /// The ports that this change may make others: a class of peers, or a rule list, tells
    /// backends apart that were alike.
    fn touched(&self, delta: &PlanDelta, new: &[&ChainTables]) -> BTreeSet<ServicePort> {
        let mut touched: BTreeSet<ServicePort> = delta.services.keys().copied().collect();
        for (address, _) in delta.peers.on(&NetworkKey::Default) {
            touched.extend(self.by_backend.get(&address).into_iter().flatten());
        }
        let is_split = |port: &ServicePort, backends: &BTreeSet<Backend>| {
            let Some(first) = backends.first() else {
                return false;
            };
            let mut others = backends.iter().skip(1);
            others.any(|other| !are_alike(new, port, first, other))
        };
        if !new.is_empty() {
            // New chains leave a crowded port crowded.
            let several = self.several.iter();
            let several = several.filter(|(port, _)| !self.crowded.contains(port));
            let split = several.filter(|(port, backends)| is_split(port, backends));
            touched.extend(split.map(|(port, _)| *port));
        }
        touched
    }

    fn note(&mut self, port: &ServicePort, backends: &BTreeSet<Backend>, entry: Option<Service>) {
        self.forget(port);
        let Some(entry) = entry else { return };
        if entry.is_mixed() {
            self.mixed.insert(*port);
        }
        self.entries.insert(key(port));
        if backends.len() > 1 {
            for backend in backends {
                let ports = self.by_backend.entry(backend.address).or_default();
                ports.insert(*port);
            }
            self.several.insert(*port, backends.clone());
        }
    }

    fn forget(&mut self, port: &ServicePort) {
        self.entries.remove(&key(port));
        self.mixed.remove(port);
        for backend in self.several.remove(port).unwrap_or_default() {
            if let Some(ports) = self.by_backend.get_mut(&backend.address) {
                ports.remove(port);
                if ports.is_empty() {
                    self.by_backend.remove(&backend.address);
                }
            }
        }
    }
}

impl RuleDatapath {
    /// Writes the Services that this change touches, with the kinds of backends of before and those
    /// of afterwards: which of them a packet goes to is asked while there are both.
    pub(super) fn widen_services(&mut self, plan: &NodePlan, delta: &PlanDelta) {
        let chains = delta.chains.keys();
        let new: Vec<&ChainTables> = chains
            .filter(|id| plan.chains.contains_key(id))
            .filter_map(|id| self.chains.get(id))
            .collect();
        let has_new = !new.is_empty();
        let touched = self.services.touched(delta, &new);
        for port in self.services.crowded.sort(&touched) {
            let widened = self.widen_service(plan, &port);
            self.problems.note(Subject::Services, widened);
            self.services.wide.insert(port);
        }
        if !has_new {
            return;
        }
        // An untouched port needs entries for the new chains alone.
        let is_new = |id: &ChainId| delta.chains.contains_key(id) && plan.chains.contains_key(id);
        let served = self.services.crowded.served.keys().copied();
        let others: Vec<ServicePort> = served.filter(|port| !touched.contains(port)).collect();
        for port in others {
            if let Some(backends) = plan.services.get(&port) {
                let widened = self.widen_chain_entries(plan, &port, backends, is_new);
                self.problems.note(Subject::Services, widened);
            }
        }
    }

    fn widen_service(&mut self, plan: &NodePlan, port: &ServicePort) -> Result<()> {
        let key = key(port);
        let there = self.rules.services.get(&key)?;
        // One that goes goes when all else is as it shall be.
        let Some(backends) = plan.services.get(port) else {
            return Ok(());
        };
        let Some(now) = entry(plan, &self.chains, port, backends) else {
            return Ok(());
        };
        let wide = match there {
            None => now,
            Some(there) if there == now || there.is_crowded() => there,
            Some(_) if now.is_crowded() => now,
            Some(there) => {
                let is_left = |kind: &(IpAddr, u16)| {
                    let (address, port) = *kind;
                    backends.contains(&Backend { address, port })
                };
                let kinds = there.kinds().filter(is_left).chain(now.kinds());
                service_of(kinds.collect())
            }
        };
        if wide.is_crowded() {
            self.widen_chain_entries(plan, port, backends, |_| true)?;
        }
        put(&self.rules.services, &key, &wide, &mut self.changes)
    }

    /// Gives the Services that were widened the kinds that they have now.
    pub(super) fn narrow_services(&mut self, plan: &NodePlan) {
        let wide = std::mem::take(&mut self.services.wide);
        // First the ports that may give up a place.
        let before = self.services.crowded.unserved.clone();
        for port in wide.difference(&before) {
            let written = self.write_service(plan, port);
            self.problems.note(Subject::Services, written);
        }
        for port in &before {
            if wide.contains(port) || self.is_within_limits(plan, port) {
                let written = self.write_service(plan, port);
                self.problems.note(Subject::Services, written);
            }
        }
    }

    /// What differed to a rule list that is gone may be alike to those that are left.
    pub(super) fn merge_services(&mut self) {
        self.services.wide.extend(&self.services.mixed);
    }

    fn write_service(&mut self, plan: &NodePlan, port: &ServicePort) -> Result<()> {
        let none = BTreeSet::new();
        let backends = plan.services.get(port).unwrap_or(&none);
        let key = key(port);
        let entry = entry(plan, &self.chains, port, backends);
        let own = match entry.as_ref().is_some_and(Service::is_crowded) {
            true => self.write_chain_entries(plan, port, backends)?,
            false => {
                self.services.crowded.unserved.remove(port);
                BTreeSet::new()
            }
        };
        match &entry {
            Some(entry) => put(&self.rules.services, &key, entry, &mut self.changes)?,
            None => self.changes += u64::from(self.rules.services.remove(&key)?),
        }
        self.services.note(port, backends, entry);
        // The program no longer asks for those of other chains.
        self.remove_chain_entries(port, own)
    }

    /// Says so where it matters that conntrack cannot be asked.
    pub(super) fn note_conntrack(&mut self) {
        let problem = self.rules.deaf().and_then(|why| {
            let mut mixed = self.services.mixed.iter();
            let first = mixed.next()?;
            let others = others(mixed.count());
            Some(Problem {
                object: problems::node(),
                reason: Reason::KernelFeatureMissing,
                message: format!(
                    "the backends of {} ({}){others} are not alike to all rules, and which one a \
                     connection goes to is not known: where they differ to a pod's rules, what it \
                     sends there is classified by the virtual address: {why}",
                    SocketAddr::new(first.address, first.port),
                    first.protocol
                ),
            })
        });
        self.problems.set(Subject::Conntrack, problem);
    }
}

/// The part of a message that counts the other ports.
pub(super) fn others(count: usize) -> String {
    match count {
        0 => String::new(),
        count => format!(" and of {count} other ports of Services"),
    }
}

/// The program's name for a Service's port.
pub(super) fn key(port: &ServicePort) -> ServiceKey {
    ServiceKey::new(port.address, port.protocol.number(), port.port)
}

/// The entry of these kinds.
pub(super) fn service_of(kinds: BTreeSet<(IpAddr, u16)>) -> Service {
    Service::new(&kinds.into_iter().collect::<Vec<_>>())
}

/// What the program is told of a Service's port; `None` where nothing stands behind it.
fn entry(
    plan: &NodePlan,
    chains: &BTreeMap<ChainId, ChainTables>,
    port: &ServicePort,
    backends: &BTreeSet<Backend>,
) -> Option<Service> {
    let chains: Vec<&ChainTables> = chains.values().collect();
    let class = |backend: &Backend| plan.peers.get(&NetworkKey::Default, backend.address);
    let is_like = |one: &Backend, other: &Backend| {
        class(one) == class(other) && are_alike(&chains, port, one, other)
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

/// True when these rule lists say the same of two backends, whatever their classes are.
fn are_alike(chains: &[&ChainTables], port: &ServicePort, one: &Backend, other: &Backend) -> bool {
    let (one, other) = ((one.address, one.port), (other.address, other.port));
    let mut chains = chains.iter();
    chains.all(|chain| chain.is_like(port.protocol, one, other))
}
