//! The entries per chain of crowded Services' ports, and their limits.
//!
//! Tenants create Services, pods and rules. Without limits they could make the agent compute any number
//! of verdicts, and fill the program's table. A port beyond [`ServiceLimits`] has no entry per chain. The
//! program then treats its backends as different: the virtual address decides the first packet of a
//! connection.
//!
//! A port that has entries keeps them, also after a restart, so that a new Service never displaces
//! another. The next port in order gets entries when a port gives them up.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

use netqos_bpf::rules::{Bitmap, ChainServiceKey, ClassKey, SERVICE_KINDS, ServiceKey};
use netqos_core::plan::{Backend, ChainId, ServicePort};
use netqos_core::{NetworkKey, NodePlan, Problem, Reason};

use super::chains::put;
use super::engine::RuleDatapath;
use super::problems::{self, Subject};
use super::services::{key, others, service_of};
use super::tables::{BackendVerdict, ChainTables};
use crate::Result;

/// Limits of the work for crowded Services on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceLimits {
    /// The most ports that have entries per chain.
    pub ports: usize,
    /// The most verdicts for one port: chains × backends.
    pub verdicts: usize,
}

impl Default for ServiceLimits {
    /// At most 71,111 entries, as a crowded port has nine backends or more: half of the program's table.
    fn default() -> Self {
        Self {
            ports: 64,
            verdicts: 10_000,
        }
    }
}

/// The ports of crowded Services.
#[derive(Debug, Default)]
pub(super) struct CrowdedPorts {
    /// The ports within the limits, and the chains that may have an entry of their own.
    pub(super) served: BTreeMap<ServicePort, BTreeSet<u64>>,
    /// The ports beyond a limit.
    pub(super) unserved: BTreeSet<ServicePort>,
    /// The ports with entries in the kernel at the last sync, until the sync widens Services.
    served_before: HashSet<ServiceKey>,
}

impl CrowdedPorts {
    /// The program's names of all entries.
    pub(super) fn keys(&self) -> HashSet<ChainServiceKey> {
        let served = self.served.iter();
        let keys = served.flat_map(|(port, chains)| {
            let chains = chains.iter();
            chains.map(|chain| chain_key(port, *chain))
        });
        keys.collect()
    }

    pub(super) fn contains(&self, port: &ServicePort) -> bool {
        self.served.contains_key(port) || self.unserved.contains(port)
    }

    /// Sorts ports: the ports that had entries before the sync are first.
    pub(super) fn sort(&mut self, ports: &BTreeSet<ServicePort>) -> Vec<ServicePort> {
        let before = std::mem::take(&mut self.served_before);
        let mut sorted: Vec<ServicePort> = ports.iter().copied().collect();
        sorted.sort_by_key(|port| !before.contains(&key(port)));
        sorted
    }
}

impl RuleDatapath {
    /// Reads which ports have entries in the kernel.
    pub(super) fn read_crowded(&mut self) -> Result<()> {
        let keys = self.rules.chain_services.keys()?.into_iter();
        self.services.crowded.served_before = keys.map(|key| key.service).collect();
        Ok(())
    }

    /// Writes the entries of a crowded port for these chains: the backends that tell now, by what the
    /// kernel holds of peers, and those that will. Removes the entries of a port beyond a limit.
    pub(super) fn widen_chain_entries(
        &mut self,
        plan: &NodePlan,
        port: &ServicePort,
        backends: &BTreeSet<Backend>,
        is_due: impl Fn(&ChainId) -> bool,
    ) -> Result<()> {
        if !self.serve(plan, port) {
            return self.remove_chain_entries(port, BTreeSet::new());
        }
        let number = self.networks.of(&NetworkKey::Default);
        let mut classes = HashMap::new();
        for Backend { address, .. } in backends {
            if let Some(class) = self.rules.networks.get(number, *address)? {
                classes.insert(*address, class);
            }
        }
        for (id, tables) in self.chains.iter().filter(|(id, _)| is_due(id)) {
            let chain = id.0.get();
            let mut verdicts = Vec::with_capacity(backends.len());
            for backend in backends {
                let class = match classes.get(&backend.address) {
                    Some(class) => self.rules.classes.get(&ClassKey::new(chain, *class))?,
                    None => None,
                };
                verdicts.push((*backend, verdict(tables, port, backend, class)));
            }
            let mut kinds = telling(verdicts);
            if plan.chains.contains_key(id) {
                kinds.extend(telling(planned(plan, tables, port, backends)));
            }
            let own = self.services.crowded.served.entry(*port).or_default();
            own.insert(chain);
            let key = chain_key(port, chain);
            let entry = service_of(kinds);
            put(&self.rules.chain_services, &key, &entry, &mut self.changes)?;
        }
        Ok(())
    }

    /// Writes the entries of a crowded port as planned. Returns the chains that have one: none if the
    /// port is beyond a limit.
    pub(super) fn write_chain_entries(
        &mut self,
        plan: &NodePlan,
        port: &ServicePort,
        backends: &BTreeSet<Backend>,
    ) -> Result<BTreeSet<u64>> {
        let mut own = BTreeSet::new();
        if !self.serve(plan, port) {
            return Ok(own);
        }
        let chains = self.chains.iter();
        for (id, tables) in chains.filter(|(id, _)| plan.chains.contains_key(id)) {
            let chain = id.0.get();
            own.insert(chain);
            let known = self.services.crowded.served.entry(*port).or_default();
            known.insert(chain);
            let key = chain_key(port, chain);
            let entry = service_of(telling(planned(plan, tables, port, backends)));
            put(&self.rules.chain_services, &key, &entry, &mut self.changes)?;
        }
        Ok(own)
    }

    /// Removes the entries of a port for all chains but these. A port without entries gives up its place.
    pub(super) fn remove_chain_entries(
        &mut self,
        port: &ServicePort,
        kept: BTreeSet<u64>,
    ) -> Result<()> {
        let known = self.services.crowded.served.get(port).into_iter().flatten();
        for chain in known.filter(|chain| !kept.contains(chain)) {
            let key = chain_key(port, *chain);
            self.changes += u64::from(self.rules.chain_services.remove(&key)?);
        }
        match kept.is_empty() {
            true => self.services.crowded.served.remove(port),
            false => self.services.crowded.served.insert(*port, kept),
        };
        Ok(())
    }

    /// Gives a crowded port a place if the limits leave one. Returns true if it has one.
    fn serve(&mut self, plan: &NodePlan, port: &ServicePort) -> bool {
        let is_served = self.is_within_limits(plan, port);
        let crowded = &mut self.services.crowded;
        match is_served {
            true => {
                crowded.unserved.remove(port);
                crowded.served.entry(*port).or_default();
            }
            false => {
                crowded.unserved.insert(*port);
            }
        }
        is_served
    }

    /// Returns true if the limits leave room for the entries of this port.
    pub(super) fn is_within_limits(&self, plan: &NodePlan, port: &ServicePort) -> bool {
        let ServiceLimits { ports, verdicts } = self.service_limits;
        let served = &self.services.crowded.served;
        (served.contains_key(port) || served.len() < ports) && verdicts_of(plan, port) <= verdicts
    }

    /// Reports the ports beyond a limit.
    pub(super) fn note_service_limits(&mut self, plan: &NodePlan) {
        let ServiceLimits { ports, verdicts } = self.service_limits;
        let mut unserved = self.services.crowded.unserved.iter();
        let problem = unserved.next().map(|first| {
            let cause = match verdicts_of(plan, first) {
                needed if needed > verdicts => format!(
                    "it takes {needed} verdicts (chains × backends), and netqos computes at most \
                     {verdicts} for a port"
                ),
                _ => format!("netqos compares those of at most {ports} such ports on a node"),
            };
            Problem {
                object: problems::node(),
                reason: Reason::ServiceLimitReached,
                message: format!(
                    "cannot compare the backends of {} ({}){}, which are of more than \
                     {SERVICE_KINDS} kinds: {cause}; the first packet of each connection is \
                     classified by the virtual address, and rules for the backends do not apply to \
                     it; use fewer such Services, or fewer rules that tell backends apart",
                    SocketAddr::new(first.address, first.port),
                    first.protocol,
                    others(unserved.count()),
                ),
            }
        });
        self.problems.set(Subject::ServiceLimits, problem);
    }
}

/// The program's name for the entry that a chain has of a crowded Service's port.
fn chain_key(port: &ServicePort, chain: u64) -> ChainServiceKey {
    ChainServiceKey {
        chain,
        service: key(port),
    }
}

/// The verdicts that the entries of a port need.
fn verdicts_of(plan: &NodePlan, port: &ServicePort) -> usize {
    let backends = plan.services.get(port).map_or(0, BTreeSet::len);
    plan.chains.len() * backends
}

/// A backend's verdict by a chain, to which the backend's class has these rules.
fn verdict(
    tables: &ChainTables,
    port: &ServicePort,
    backend: &Backend,
    class: Option<Bitmap>,
) -> BackendVerdict {
    let backend = (backend.address, backend.port);
    tables.verdict(port.protocol, backend, class.as_ref())
}

/// The verdicts of a plan's chain on all backends of a port.
fn planned<'p>(
    plan: &'p NodePlan,
    tables: &'p ChainTables,
    port: &'p ServicePort,
    backends: &'p BTreeSet<Backend>,
) -> impl Iterator<Item = (Backend, BackendVerdict)> + 'p {
    backends.iter().map(move |backend| {
        let class = plan.peers.get(&NetworkKey::Default, backend.address);
        let sets = class.and_then(|class| plan.classes.get(class));
        let class = sets.map(|sets| tables.class_rules(sets));
        (*backend, verdict(tables, port, backend, class))
    })
}

/// The backends that tell whether all have the same winner, and the same first rule: one, one whose
/// winner differs from that one's, and one whose first rule does.
fn telling(
    verdicts: impl IntoIterator<Item = (Backend, BackendVerdict)>,
) -> BTreeSet<(IpAddr, u16)> {
    let mut verdicts = verdicts.into_iter();
    let Some((one, first)) = verdicts.next() else {
        return BTreeSet::new();
    };
    let (mut other_winner, mut other_first) = (None, None);
    for (backend, verdict) in verdicts {
        if verdict.winner != first.winner {
            other_winner.get_or_insert(backend);
        }
        if verdict.first != first.first {
            other_first.get_or_insert(backend);
        }
    }
    let all = std::iter::once(one).chain(other_winner).chain(other_first);
    all.map(|backend| (backend.address, backend.port)).collect()
}
