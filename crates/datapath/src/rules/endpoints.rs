//! Endpoints: found, switched to their rule lists by one write, and taken away again.

use std::collections::BTreeSet;

use netqos_bpf::rules::{Endpoint as Entry, EndpointFlags};
use netqos_core::plan::{ChainId, Endpoint};
use netqos_core::{Digest, EndpointId, NetworkKey, NodePlan, ObjectRef, PlanDelta, Problem};

use super::chains::put;
use super::engine::RuleDatapath;
use super::problems::{self, Subject};
use super::site::{Found, Site};
use crate::endpoint::Side;
use crate::error::Errors;
use crate::record::SideName;
use crate::{Error, HookKind, Result};

/// Numbers of endpoints travel in a filter's class id, of which the programs see 16 bits; 0 is none.
const NUMBERS: u64 = 0xFFFF;

/// An endpoint that is about to get its rules.
pub(super) struct Arrival {
    pub(super) id: EndpointId,
    pub(super) chain: ChainId,
    pub(super) found: Found,
    pub(super) site: Site,
    /// Its program stands there, and is put there once more.
    pub(super) is_displaced: bool,
}

/// An endpoint's entry in the program's table, as the kernel has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct InForce {
    pub(super) number: u16,
    /// The rule list that it goes by; 0 is none.
    pub(super) chain: u64,
}

impl RuleDatapath {
    /// Reads what an earlier process left of the endpoints of this plan.
    pub(super) fn read_endpoints(&mut self, plan: &NodePlan) -> Result<()> {
        self.entries.clear();
        self.sites = Site::all(&self.paths)
            .into_iter()
            .filter_map(|site| {
                let mut ids = plan.endpoints.keys();
                let id = ids.find(|id| id.to_string() == site.endpoint)?;
                Some((id.clone(), site))
            })
            .collect();
        let mut errors = Errors::default();
        for (id, site) in &self.sites {
            let key = site.number.into();
            // Whoever was killed while removing it may have left the site alone.
            let free = Entry::new(owner(id), 0, 0, 0, 0);
            let claimed = self.rules.endpoints.claim(&key, &free);
            errors.note(claimed.map_err(Error::from));
            // One that cannot be read is no stranger all the same.
            let entry = self.rules.endpoints.get(&key).map_err(Error::from);
            let own = errors
                .note(entry)
                .flatten()
                .filter(|entry| entry.owner == owner(id));
            let in_force = InForce {
                number: site.number,
                chain: own.map_or(0, |entry| entry.chain),
            };
            self.entries.insert(id.clone(), in_force);
        }
        errors.finish()
    }

    /// The rule list that an endpoint goes by, as the kernel has it.
    pub(super) fn in_force(&self, id: &EndpointId) -> Option<ChainId> {
        let entry = self.entries.get(id).filter(|entry| entry.chain != 0)?;
        self.chains
            .keys()
            .find(|chain| chain.0.get() == entry.chain)
            .copied()
    }

    /// The rule lists that endpoints go by, as the kernel has them.
    pub(super) fn met_chains(&self) -> BTreeSet<u64> {
        let chains = self.entries.values().map(|entry| entry.chain);
        chains.filter(|chain| *chain != 0).collect()
    }

    /// The rule lists that endpoints still go by and that the plan does not know: on their way
    /// out, or left there by a switch that failed.
    pub(super) fn going_chains(&self, plan: &NodePlan) -> BTreeSet<u64> {
        let mut met = self.met_chains();
        for id in plan.chains.keys() {
            met.remove(&id.0.get());
        }
        met
    }

    /// The rule lists that the plan does not know and that detached programs may have in hand.
    pub(super) fn detached_chains(&self, plan: &NodePlan) -> BTreeSet<u64> {
        let mut detached = self.grace.detached.clone();
        if !detached.is_empty() {
            for id in plan.chains.keys() {
                detached.remove(&id.0.get());
            }
        }
        detached
    }

    /// True when an endpoint goes by a rule list of which nothing is known, since the switch to
    /// another failed: nothing that it may need goes.
    pub(super) fn is_stranded(&self) -> bool {
        let known: BTreeSet<u64> = self.chains.keys().map(|id| id.0.get()).collect();
        !self.met_chains().is_subset(&known)
    }

    /// Finds the interfaces of endpoints that get rules or other ones. Nothing is changed there.
    pub(super) fn find_arrivals(&mut self, plan: &NodePlan, delta: &PlanDelta) -> Vec<Arrival> {
        let mut arrivals = Vec::new();
        for id in delta.endpoints.keys() {
            let Some(endpoint) = plan.endpoints.get(id) else {
                continue;
            };
            match self.find(id, endpoint) {
                Ok(arrival) => arrivals.extend(arrival),
                Err(error) => {
                    let subject = Subject::Endpoint(id.clone());
                    self.problems.settle(subject, pod(plan, id), Err(error));
                }
            }
        }
        arrivals
    }

    /// `None`: no rule is for it, or it cannot be reached, which the plan says itself.
    pub(super) fn find(&mut self, id: &EndpointId, endpoint: &Endpoint) -> Result<Option<Arrival>> {
        let (Some(chain), Some(interface)) = (endpoint.chain, endpoint.attach.interface()) else {
            return Ok(None);
        };
        let (attachment, mut found) = Found::find(interface)?;
        let before = self.sites.get(id).map(|site| site.hook);
        if before == Some(HookKind::Clsact) && found.is_limited_by_calico()? {
            // Calico finds no place while clsact is there.
            self.remove_endpoint(id)?;
        }
        let number = self.number(id)?;
        let before = self.sites.get(id);
        let netns = &interface.netns;
        let mut site = found.plan(id, attachment, netns, number, self.choice, before)?;
        // Whoever goes last removes what the first one made.
        if site.hook == HookKind::Clsact && !site.made_clsact {
            let limits = self.records.read(&site.attachment)?;
            site.made_clsact = limits.is_some_and(|it| it.made_clsact(site.side, site.index));
        }
        Ok(Some(Arrival {
            id: id.clone(),
            chain,
            found,
            site,
            is_displaced: false,
        }))
    }

    /// The endpoint's number: its own, or one that is free and its own from now on.
    fn number(&mut self, id: &EndpointId) -> Result<u16> {
        if let Some(entry) = self.entries.get(id) {
            return Ok(entry.number);
        }
        let owner = owner(id);
        let free = Entry::new(owner, 0, 0, 0, 0);
        for attempt in 0..NUMBERS {
            let number = 1 + owner.wrapping_add(attempt) % NUMBERS;
            let chain = if self.rules.endpoints.claim(&(number as u32), &free)? {
                0
            } else {
                let there = self.rules.endpoints.get(&(number as u32))?;
                match there.filter(|there| there.owner == owner) {
                    Some(own) => own.chain,
                    None => continue,
                }
            };
            let number = number as u16;
            let entry = InForce { number, chain };
            self.entries.insert(id.clone(), entry);
            return Ok(number);
        }
        Err(Error::NoEndpointNumber(NUMBERS))
    }

    /// Gives endpoints their rules, each by one write, and puts the program at its interface.
    /// Those whose rules could not be written whole keep what they have.
    pub(super) fn switch_all(&mut self, plan: &NodePlan, arrivals: Vec<Arrival>) {
        for mut arrival in arrivals {
            let object = pod(plan, &arrival.id);
            let subject = Subject::Endpoint(arrival.id.clone());
            if let Some(why) = self.lacks(&arrival.id.network, arrival.chain) {
                let problem = Problem {
                    object,
                    ..why.clone()
                };
                self.problems.set(subject, Some(problem));
                continue;
            }
            let made = self.switch(&mut arrival);
            self.problems.settle(subject, object, made);
        }
    }

    /// Why its rules are not whole.
    fn lacks(&self, network: &NetworkKey, chain: ChainId) -> Option<&Problem> {
        let services = match network {
            NetworkKey::Default => self.problems.get(&Subject::Services),
            _ => None,
        };
        let peers = || self.problems.get(&Subject::Peers(network.clone()));
        let rules = || self.problems.get(&Subject::Chain(chain));
        services.or_else(peers).or_else(rules)
    }

    pub(super) fn switch(&mut self, arrival: &mut Arrival) -> Result<()> {
        let Arrival {
            id,
            chain,
            found,
            site,
            is_displaced,
        } = arrival;
        let is_host = site.side == SideName::Host;
        let services = match id.network {
            NetworkKey::Default => EndpointFlags::SERVICES,
            _ => 0,
        };
        let entry = Entry::new(
            owner(id),
            self.networks.of(&id.network),
            chain.0.get(),
            if is_host { found.link.index } else { 0 },
            services | if is_host { EndpointFlags::QUEUES } else { 0 },
        );
        let number = site.number;
        let key = u32::from(number);
        put(&self.rules.endpoints, &key, &entry, &mut self.changes)?;
        let chain = chain.0.get();
        let before = self.entries.insert(id.clone(), InForce { number, chain });
        if before.is_some_and(|before| ![0, chain].contains(&before.chain)) {
            self.grace.note_replaced();
        }
        // An end on the host stays the same one whichever way the pod's namespace was found.
        let is_elsewhere =
            |before: &Site| before.side == SideName::Pod && before.netns != site.netns;
        let stale = self.sites.get(id).filter(|before| {
            before.index != site.index
                || before.side != site.side
                || before.attachment != site.attachment
                || is_elsewhere(before)
        });
        let lock = self.records.lock(&site.attachment)?;
        if let Some(stale) = stale {
            stale.detach(&self.rules)?;
        }
        if self.sites.get(id) != Some(site) {
            site.write(&self.paths)?;
            // From now on there may be something at the interface.
            self.sites.insert(id.clone(), site.clone());
        }
        if *is_displaced {
            found.put(site, &self.rules)?;
            self.changes += 1;
        } else if found.attach(site, &self.rules)? {
            self.changes += 1;
        }
        drop(lock);
        Ok(())
    }

    /// Takes away what endpoints have that no rule is for any more. Says which rule lists they went
    /// by.
    pub(super) fn remove_endpoints(
        &mut self,
        plan: &NodePlan,
        delta: &PlanDelta,
    ) -> BTreeSet<ChainId> {
        let mut left = BTreeSet::new();
        for id in delta.endpoints.keys() {
            // One that is not found may still send through the end on the host.
            let is_ruled = |endpoint: &Endpoint| {
                let is_reached = endpoint.attach.interface().is_some() || self.is_at_host(id);
                endpoint.chain.is_some() && is_reached
            };
            if plan.endpoints.get(id).is_some_and(is_ruled) {
                continue;
            }
            left.extend(self.in_force(id));
            self.forget_contest(id);
            let object = pod(plan, id);
            let removed = self.remove_endpoint(id);
            let subject = Subject::Endpoint(id.clone());
            self.problems.settle(subject, object, removed);
        }
        left
    }

    /// True when the endpoint's program is at a link of the host that is there.
    fn is_at_host(&self, id: &EndpointId) -> bool {
        let site = self.sites.get(id);
        site.is_some_and(|site| Side::host().is_ok_and(|host| Found::at_host(host, site).is_ok()))
    }

    fn remove_endpoint(&mut self, id: &EndpointId) -> Result<()> {
        if let Some(site) = self.sites.get(id).cloned() {
            self.remove_site(&site)?;
        } else if let Some(entry) = self.entries.get(id) {
            self.rules.endpoints.remove(&entry.number.into())?;
        }
        self.sites.remove(id);
        self.entries.remove(id);
        Ok(())
    }

    /// Takes the program away, and then the endpoint.
    pub(super) fn remove_site(&mut self, site: &Site) -> Result<()> {
        let lock = self.records.lock(&site.attachment)?;
        let is_there = site.detach(&self.rules)?;
        let number = site.number.into();
        if is_there {
            self.grace.note_replaced();
            let entry = self.rules.endpoints.get(&number)?;
            let chain = entry.map(|entry| entry.chain);
            self.grace
                .detached
                .extend(chain.filter(|chain| *chain != 0));
        }
        self.rules.endpoints.remove(&number)?;
        site.forget(&self.paths)?;
        self.changes += 1;
        drop(lock);
        Ok(())
    }

    /// True when an endpoint's rules are in force as the plan has them.
    pub(super) fn is_in_force(&self, id: &EndpointId, plan: &NodePlan) -> bool {
        let wanted = plan.endpoints.get(id).and_then(|endpoint| endpoint.chain);
        let (Some(wanted), Some(own)) = (wanted, self.entries.get(id)) else {
            return false;
        };
        let subject = Subject::Endpoint(id.clone());
        own.chain == wanted.0.get()
            && self.problems.get(&subject).is_none()
            && self.lacks(&id.network, wanted).is_none()
    }
}

/// The pod of an endpoint, or the node where that is not known any more.
fn pod(plan: &NodePlan, id: &EndpointId) -> ObjectRef {
    let endpoint = plan.endpoints.get(id);
    endpoint.map_or_else(problems::node, |endpoint| {
        ObjectRef::Pod(endpoint.pod.name.clone())
    })
}

/// The digest by which an endpoint's number is known to be its own.
fn owner(id: &EndpointId) -> u64 {
    Digest::of(id).get()
}
