//! Applying a plan.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use netqos_api::HookChoice;
use netqos_bpf::Pins;
use netqos_bpf::rules::{
    Endpoint as EndpointEntry, EndpointFlags, Plain, Rule, Rules, Service, ServiceKey, Table,
};
use netqos_core::plan::{Attach, Backend, Chain, ChainId, RuleId, ServicePort};
use netqos_core::{
    Bandwidth, Digest, EndpointId, NetworkKey, NodePlan, ObjectRef, PlanDelta, Problem, Reason,
};

use super::meters::{self, Meter, Wanted};
use super::numbers::NetworkNumbers;
use super::site::{Found, Site};
use super::tables::{ChainTables, rule_number};
use super::{EndpointStatus, Outcome, RuleCount, services};
use crate::endpoint::Side;
use crate::record::Records;
use crate::{Error, Paths, Result};

/// Numbers of endpoints travel in a filter's class id, of which the programs see 16 bits; 0 is none.
const NUMBERS: u64 = 0xFFFF;
/// A packet of this size passes every meter, whatever the pods' interfaces say.
const LEAST_MTU: u32 = 1500;
/// From so many on, peers are written together.
const MANY_PEERS: usize = 64;

/// Puts the rules of a plan in force, on the node (network namespace) in which it was opened.
#[derive(Debug)]
pub struct RuleDatapath {
    pub(super) paths: Paths,
    choice: HookChoice,
    records: Records,
    pub(super) host: Side,
    pub(super) pins: Pins,
    pub(super) rules: Rules,
    pub(super) sites: BTreeMap<EndpointId, Site>,
    pub(super) chains: BTreeMap<ChainId, ChainTables>,
    pub(super) meters: BTreeMap<RuleId, Meter>,
    pub(super) networks: NetworkNumbers,
    pub(super) services: HashMap<ServiceKey, Service>,
    /// What is wrong with each endpoint, meter or table, until it is right.
    problems: BTreeMap<Subject, Problem>,
    pub(super) changes: u64,
}

/// What a problem is cleared by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Endpoint(EndpointId),
    Meter(RuleId),
    Burst(RuleId),
    Services,
    Tables,
    Leftovers,
}

/// An endpoint that is about to get its rules.
struct Arrival {
    id: EndpointId,
    chain: ChainId,
    found: Found,
    site: Site,
}

impl RuleDatapath {
    /// Opens the kernel's door, and loads the programs where they are not.
    ///
    /// # Errors
    /// The kernel lacks what rules need, or the caller a privilege.
    pub fn open(paths: Paths, choice: HookChoice) -> Result<Self> {
        Ok(Self {
            records: Records::new(paths.attachments()),
            host: Side::host()?,
            pins: Pins::ensure(paths.bpffs())?,
            rules: Rules::ensure(paths.bpffs())?,
            paths,
            choice,
            sites: BTreeMap::new(),
            chains: BTreeMap::new(),
            meters: BTreeMap::new(),
            networks: NetworkNumbers::default(),
            services: HashMap::new(),
            problems: BTreeMap::new(),
            changes: 0,
        })
    }

    /// Makes the kernel hold this plan and nothing else, whatever is there. What is right already
    /// is not touched.
    pub fn sync(&mut self, plan: &NodePlan) -> Outcome {
        self.chains.clear();
        self.meters.clear();
        self.services.clear();
        self.problems.clear();
        self.networks = NetworkNumbers::default();
        self.sites = Site::all(&self.paths)
            .into_iter()
            .filter_map(|site| {
                let id = plan
                    .endpoints
                    .keys()
                    .find(|id| id.to_string() == site.endpoint)?;
                Some((id.clone(), site))
            })
            .collect();
        let everything = NodePlan::default().delta_to(plan);
        self.change(plan, &everything);
        let purged = self.purge(plan);
        self.note(Subject::Leftovers, None, purged);
        self.outcome()
    }

    /// Makes what changed; `plan` is the plan after the change.
    pub fn apply(&mut self, plan: &NodePlan, delta: &PlanDelta) -> Outcome {
        self.change(plan, delta);
        self.outcome()
    }

    /// What rules did for the endpoints of this node.
    pub fn counts(&self) -> Result<Vec<RuleCount>> {
        let endpoints: HashMap<u32, &EndpointId> = self
            .sites
            .iter()
            .map(|(id, site)| (site.number.into(), id))
            .collect();
        let rules: HashMap<u64, &RuleId> = self
            .chains
            .values()
            .flat_map(ChainTables::names)
            .map(|rule| (rule_number(rule), rule))
            .collect();
        let mut counts = Vec::new();
        for (key, counter) in self.rules.counters.all()? {
            if let (Some(endpoint), Some(rule)) =
                (endpoints.get(&key.endpoint()), rules.get(&key.rule))
            {
                counts.push(RuleCount {
                    endpoint: (*endpoint).clone(),
                    rule: (*rule).clone(),
                    packets: counter.packets,
                    bytes: counter.bytes,
                    marked: counter.marked,
                    dropped_packets: counter.dropped_packets,
                    dropped_bytes: counter.dropped_bytes,
                });
            }
        }
        counts.sort_by(|a, b| (&a.endpoint, &a.rule).cmp(&(&b.endpoint, &b.rule)));
        Ok(counts)
    }

    fn change(&mut self, plan: &NodePlan, delta: &PlanDelta) {
        self.changes = 0;
        let arrivals = self.find_arrivals(plan, delta);
        if !delta.chains.is_empty() || !delta.endpoints.is_empty() {
            self.make_meters(plan, &arrivals);
        }
        let made = self.write_tables(plan, delta);
        let is_made = made.is_ok();
        self.note(Subject::Tables, None, made);
        if is_made {
            for arrival in arrivals {
                self.switch(plan, arrival);
            }
        }
        self.remove_endpoints(plan, delta);
        let removed = self.remove_tables(plan, delta);
        self.note(Subject::Leftovers, None, removed);
        self.note_services(plan);
    }

    /// Finds the interfaces of endpoints that get rules or other ones. Nothing is changed.
    fn find_arrivals(&mut self, plan: &NodePlan, delta: &PlanDelta) -> Vec<Arrival> {
        let mut arrivals = Vec::new();
        for id in delta.endpoints.keys() {
            let Some(endpoint) = plan.endpoints.get(id) else {
                continue;
            };
            let (Some(chain), Some(interface)) = (endpoint.chain, endpoint.attach.interface())
            else {
                continue;
            };
            let number = match self.number(id) {
                Ok(number) => number,
                Err(error) => {
                    self.note(Subject::Endpoint(id.clone()), Some(plan), Err(error));
                    continue;
                }
            };
            let before = self.sites.get(id);
            let choice = self.choice;
            let found = Found::find(interface).and_then(|(attachment, mut found)| {
                let site = found.plan(id, attachment, &interface.netns, number, choice, before)?;
                Ok(Arrival {
                    id: id.clone(),
                    chain,
                    found,
                    site,
                })
            });
            match found {
                Ok(arrival) => arrivals.push(arrival),
                Err(error) => self.note(Subject::Endpoint(id.clone()), Some(plan), Err(error)),
            }
        }
        arrivals
    }

    /// The endpoint's number: its own, or one that is free.
    fn number(&self, id: &EndpointId) -> Result<u16> {
        if let Some(site) = self.sites.get(id) {
            return Ok(site.number);
        }
        let owner = owner(id);
        for attempt in 0..NUMBERS {
            let number = 1 + owner.wrapping_add(attempt) % NUMBERS;
            let entry = EndpointEntry::new(owner, 0, 0, 0, 0);
            let is_own = |there: EndpointEntry| there.owner == owner;
            if self.rules.endpoints.claim(&(number as u32), &entry)?
                || self
                    .rules
                    .endpoints
                    .get(&(number as u32))?
                    .is_some_and(is_own)
            {
                return Ok(number as u16);
            }
        }
        Err(netqos_bpf::Error::Full(NUMBERS as usize).into())
    }

    /// Makes the meters of all rules with a rate.
    fn make_meters(&mut self, plan: &NodePlan, arrivals: &[Arrival]) {
        let sites = self.sites.values().chain(arrivals.iter().map(|a| &a.site));
        let mtu = sites.map(|site| site.mtu).max().unwrap_or(LEAST_MTU);
        let polices: BTreeSet<&RuleId> = plan
            .endpoints
            .values()
            .filter(|endpoint| matches!(endpoint.attach, Attach::PodNetns(_)))
            .filter_map(|endpoint| plan.chains.get(&endpoint.chain?))
            .flat_map(|chain| chain.rules.iter().map(|rule| &rule.id))
            .collect();
        let wanted: BTreeMap<&RuleId, Bandwidth> = plan
            .chains
            .values()
            .flat_map(|chain| &chain.rules)
            .filter_map(|rule| Some((&rule.id, rule.bandwidth?)))
            .collect();
        for (rule, bandwidth) in wanted {
            let wanted = Wanted {
                rule,
                bandwidth,
                polices: polices.contains(rule),
                mtu: mtu.max(LEAST_MTU),
            };
            self.make_meter(&wanted);
        }
    }

    fn make_meter(&mut self, wanted: &Wanted<'_>) {
        let socket = &mut self.host.socket;
        let mut made = meters::apply(socket, &self.pins, &self.rules, wanted);
        let mut without_queue = None;
        if let Err(error) = &made
            && !wanted.polices
        {
            without_queue = Some(error.to_string());
            let policing = Wanted {
                polices: true,
                ..*wanted
            };
            made = meters::apply(socket, &self.pins, &self.rules, &policing);
        }
        let about = |reason, message| Problem {
            object: ObjectRef::Policy(wanted.rule.policy.clone()),
            reason,
            message,
        };
        let rule = wanted.rule.clone();
        let problem = match (&made, without_queue) {
            (Err(error), _) => Some(about(
                Reason::UpdateFailed,
                format!("egress[{}].bandwidth is not in force: {error}", rule.index),
            )),
            (Ok(_), Some(why)) => Some(about(
                Reason::KernelFeatureMissing,
                format!(
                    "egress[{}].bandwidth has no queue, so excess is dropped at once: {why}",
                    rule.index
                ),
            )),
            (Ok(_), None) => None,
        };
        self.set(Subject::Meter(rule.clone()), problem);
        if let Ok((meter, changes)) = made {
            let asked = wanted.bandwidth.burst;
            let raised = asked
                .filter(|asked| *asked < meter.status.burst)
                .map(|asked| {
                    about(
                        Reason::BurstRaised,
                        format!(
                            "egress[{}].bandwidth.burst of {asked} is too small for TCP to reach \
                             {}; {} is in force",
                            rule.index, meter.status.rate, meter.status.burst
                        ),
                    )
                });
            self.set(Subject::Burst(rule.clone()), raised);
            self.changes += changes;
            self.meters.insert(rule, meter);
        }
    }

    /// Writes rule lists, classes, peers and Services that are new, each before what refers to it.
    fn write_tables(&mut self, plan: &NodePlan, delta: &PlanDelta) -> Result<()> {
        for (id, chain) in &delta.chains {
            if let Some(chain) = chain {
                self.write_chain(plan, *id, chain)?;
            }
        }
        if !delta.endpoints.is_empty() || !delta.chains.is_empty() {
            for id in self.chains_with_other_meters() {
                if let Some(chain) = plan.chains.get(&id) {
                    self.write_chain(plan, id, chain)?;
                }
            }
        }
        for (class, sets) in &delta.classes {
            let Some(sets) = sets else { continue };
            for chain in self.chains.values() {
                if let Some((key, bitmap)) = chain.class(*class, sets) {
                    put(&self.rules.classes, &key, &bitmap, &mut self.changes)?;
                }
            }
        }
        self.write_peers(delta)?;
        self.write_services(plan, delta)
    }

    /// The chains whose rules name another limiter or queue than is in force now: whether a rule
    /// queues or polices depends on the pods that share it.
    fn chains_with_other_meters(&self) -> Vec<ChainId> {
        let numbers = self.meters.iter();
        let numbers: HashMap<u64, _> = numbers
            .map(|(rule, meter)| (rule_number(rule), meter.numbers))
            .collect();
        let is_other = |rule: &Rule| {
            numbers.get(&rule.number).is_some_and(|meter| {
                (rule.meter, rule.queue) != (meter.limiter.into(), meter.queue)
            })
        };
        let chains = self.chains.iter();
        chains
            .filter(|(_, tables)| tables.rules.iter().any(|(_, rule)| is_other(rule)))
            .map(|(id, _)| *id)
            .collect()
    }

    fn write_chain(&mut self, plan: &NodePlan, id: ChainId, chain: &Chain) -> Result<()> {
        let meter = |rule: &RuleId| self.meters.get(rule).map(|meter| meter.numbers);
        let tables = ChainTables::of(id, chain, meter);
        let (rules, changes) = (&self.rules, &mut self.changes);
        for (key, rule) in &tables.rules {
            put(&rules.rules_of, key, rule, changes)?;
        }
        for (key, bitmap) in tables.blocks4() {
            put(&rules.blocks4, &key, &bitmap, changes)?;
        }
        for (key, bitmap) in tables.blocks6() {
            put(&rules.blocks6, &key, &bitmap, changes)?;
        }
        for (key, bitmap) in &tables.ports {
            put(&rules.ports, key, bitmap, changes)?;
        }
        for (class, sets) in &plan.classes {
            if let Some((key, bitmap)) = tables.class(*class, sets) {
                put(&rules.classes, &key, &bitmap, changes)?;
            }
        }
        put(&rules.chains, &id.0.get(), &tables.entry, changes)?;
        self.chains.insert(id, tables);
        Ok(())
    }

    fn write_peers(&mut self, delta: &PlanDelta) -> Result<()> {
        let mut by_network: BTreeMap<&NetworkKey, Vec<_>> = BTreeMap::new();
        for ((network, address), class) in &delta.peers {
            by_network
                .entry(network)
                .or_default()
                .push((*address, class.map(|class| class.0.get())));
        }
        for (network, peers) in by_network {
            let number = self.networks.of(network);
            let networks = &mut self.rules.networks;
            if peers.len() < MANY_PEERS {
                for (address, class) in peers {
                    self.changes += match class {
                        Some(class) => networks.put(number, address, class)?,
                        None => networks.remove(number, address)?,
                    };
                }
                continue;
            }
            let there: HashMap<_, _> = networks.all(number)?.into_iter().collect();
            let mut other = Vec::new();
            for (address, class) in peers {
                match class {
                    Some(class) if there.get(&address) != Some(&class) => {
                        other.push((address, class));
                    }
                    None if there.contains_key(&address) => {
                        self.changes += networks.remove(number, address)?;
                    }
                    _ => {}
                }
            }
            networks.put_all(number, &other)?;
            self.changes += other.len() as u64;
        }
        Ok(())
    }

    /// Services whose backends are alike may differ after any change of rules or peers.
    fn write_services(&mut self, plan: &NodePlan, delta: &PlanDelta) -> Result<()> {
        if delta.services.is_empty() && delta.chains.is_empty() && delta.peers.is_empty() {
            return Ok(());
        }
        let touched = |port: &ServicePort, backends: &BTreeSet<Backend>| {
            !delta.chains.is_empty()
                || delta.services.contains_key(port)
                || backends.iter().any(|backend| {
                    let key = (NetworkKey::Default, backend.address);
                    delta.peers.contains_key(&key)
                })
        };
        for (port, backends) in &plan.services {
            if touched(port, backends) {
                self.write_service(plan, port, backends)?;
            }
        }
        for (port, backends) in &delta.services {
            if backends.is_none() {
                self.remove_service(&services::key(port))?;
            }
        }
        Ok(())
    }

    fn write_service(
        &mut self,
        plan: &NodePlan,
        port: &ServicePort,
        backends: &BTreeSet<Backend>,
    ) -> Result<()> {
        let key = services::key(port);
        let Some(service) = services::entry(plan, &self.chains, port, backends) else {
            return self.remove_service(&key);
        };
        if self.services.get(&key) == Some(&service) {
            return Ok(());
        }
        put(&self.rules.services, &key, &service, &mut self.changes)?;
        self.services.insert(key, service);
        Ok(())
    }

    fn remove_service(&mut self, key: &ServiceKey) -> Result<()> {
        self.services.remove(key);
        if self.rules.services.remove(key)? {
            self.changes += 1;
        }
        Ok(())
    }

    /// Says so where it matters that conntrack cannot be asked.
    fn note_services(&mut self, plan: &NodePlan) {
        let is_mixed = |port: &&ServicePort| {
            let service = self.services.get(&services::key(port));
            service.is_some_and(Service::is_mixed)
        };
        let problem = self.rules.deaf().and_then(|why| {
            let mut mixed = plan.services.keys().filter(is_mixed);
            let first = mixed.next()?;
            let others = match mixed.count() {
                0 => String::new(),
                others => format!(" and of {others} other ports of Services"),
            };
            Some(Problem {
                object: ObjectRef::Node(String::new()),
                reason: Reason::KernelFeatureMissing,
                message: format!(
                    "the backends of {} ({}){others} are not alike to all rules, and which one a \
                     connection goes to is not known: where they differ to a pod's rules, what it \
                     sends there is classified by the virtual address: {why}",
                    std::net::SocketAddr::new(first.address, first.port),
                    first.protocol
                ),
            })
        });
        self.set(Subject::Services, problem);
    }

    /// Gives an endpoint its rules, by one write, and puts the program at its interface.
    fn switch(&mut self, plan: &NodePlan, mut arrival: Arrival) {
        let made = self.try_switch(&mut arrival);
        let is_made = made.is_ok();
        self.note(Subject::Endpoint(arrival.id.clone()), Some(plan), made);
        if is_made {
            self.sites.insert(arrival.id, arrival.site);
        }
    }

    fn try_switch(&mut self, arrival: &mut Arrival) -> Result<()> {
        let Arrival {
            id,
            chain,
            found,
            site,
        } = arrival;
        let is_host = site.side == crate::record::SideName::Host;
        let services = match id.network {
            NetworkKey::Default => EndpointFlags::SERVICES,
            _ => 0,
        };
        let entry = EndpointEntry::new(
            owner(id),
            self.networks.of(&id.network),
            chain.0.get(),
            if is_host { found.link.index } else { 0 },
            services | if is_host { EndpointFlags::QUEUES } else { 0 },
        );
        let number = u32::from(site.number);
        put(&self.rules.endpoints, &number, &entry, &mut self.changes)?;
        let stale = self.sites.get(id).filter(|before| {
            before.index != site.index || before.hook != site.hook || before.netns != site.netns
        });
        let lock = self.records.lock(&site.attachment)?;
        if let Some(stale) = stale {
            stale.detach(&self.rules)?;
        }
        if self.sites.get(id) != Some(site) {
            site.write(&self.paths)?;
        }
        if found.attach(site, &self.rules)? {
            self.changes += 1;
        }
        drop(lock);
        Ok(())
    }

    fn remove_endpoints(&mut self, plan: &NodePlan, delta: &PlanDelta) {
        for id in delta.endpoints.keys() {
            let is_ruled = |endpoint: &netqos_core::plan::Endpoint| {
                endpoint.chain.is_some() && endpoint.attach.interface().is_some()
            };
            if plan.endpoints.get(id).is_some_and(is_ruled) {
                continue;
            }
            self.problems.remove(&Subject::Endpoint(id.clone()));
            if let Some(site) = self.sites.remove(id)
                && let Err(error) = self.remove_site(&site)
            {
                self.sites.insert(id.clone(), site);
                self.note(Subject::Endpoint(id.clone()), Some(plan), Err(error));
            }
        }
    }

    /// Takes the program away, and then the endpoint.
    pub(super) fn remove_site(&mut self, site: &Site) -> Result<()> {
        let lock = self.records.lock(&site.attachment)?;
        site.detach(&self.rules)?;
        self.rules.endpoints.remove(&site.number.into())?;
        site.forget(&self.paths)?;
        self.changes += 1;
        drop(lock);
        Ok(())
    }

    /// The rule lists that endpoints go by, as the kernel has it.
    pub(super) fn met_chains(&self) -> Result<HashSet<u64>> {
        let mut met = HashSet::new();
        for site in self.sites.values() {
            if let Some(entry) = self.rules.endpoints.get(&site.number.into())? {
                met.insert(entry.chain);
            }
        }
        Ok(met)
    }

    /// True when an endpoint goes by a rule list that is not of the plan, since the switch to
    /// another failed: what that list needs is not known, and nothing that it may need goes.
    pub(super) fn is_stranded(&self) -> Result<bool> {
        let known: HashSet<u64> = self.chains.keys().map(|id| id.0.get()).collect();
        Ok(self
            .met_chains()?
            .iter()
            .any(|chain| *chain != 0 && !known.contains(chain)))
    }

    /// Removes rule lists, classes and meters that nothing refers to any more.
    fn remove_tables(&mut self, plan: &NodePlan, delta: &PlanDelta) -> Result<()> {
        let met = self.met_chains()?;
        for (id, chain) in &delta.chains {
            // Where the switch to another failed, the old one stays, with what it needs.
            if chain.is_none()
                && !met.contains(&id.0.get())
                && let Some(tables) = self.chains.remove(id)
            {
                self.remove_chain(*id, &tables, plan, delta)?;
            }
        }
        for (class, sets) in &delta.classes {
            if sets.is_some() {
                continue;
            }
            for chain in self.chains.keys() {
                let key = netqos_bpf::rules::ClassKey {
                    chain: chain.0.get(),
                    class: class.0.get(),
                };
                self.rules.classes.remove(&key)?;
            }
        }
        if delta.chains.is_empty() {
            return Ok(());
        }
        // What differed to a rule list that is gone may be alike to those that are left.
        if delta.chains.values().any(Option::is_none) {
            for (port, backends) in &plan.services {
                let service = self.services.get(&services::key(port));
                if service.is_some_and(Service::is_mixed) {
                    self.write_service(plan, port, backends)?;
                }
            }
        }
        // Of rule lists that stay, too.
        let named: BTreeSet<&RuleId> = plan
            .chains
            .values()
            .flat_map(|chain| &chain.rules)
            .filter(|rule| rule.bandwidth.is_some())
            .map(|rule| &rule.id)
            .chain(
                self.chains
                    .iter()
                    .filter(|(id, _)| !plan.chains.contains_key(id))
                    .flat_map(|(_, tables)| tables.names()),
            )
            .collect();
        let gone: Vec<RuleId> = self
            .meters
            .keys()
            .filter(|rule| !named.contains(rule))
            .cloned()
            .collect();
        for rule in gone {
            if let Some(meter) = self.meters.remove(&rule) {
                let number = rule_number(&rule);
                meters::release(&self.pins, &self.rules, number, meter.numbers.limiter)?;
                self.changes += 1;
            }
            self.problems.remove(&Subject::Meter(rule.clone()));
            self.problems.remove(&Subject::Burst(rule));
        }
        Ok(())
    }

    fn remove_chain(
        &mut self,
        id: ChainId,
        tables: &ChainTables,
        plan: &NodePlan,
        delta: &PlanDelta,
    ) -> Result<()> {
        self.rules.chains.remove(&id.0.get())?;
        for (key, _) in &tables.rules {
            self.rules.rules_of.remove(key)?;
        }
        for (key, _) in tables.blocks4() {
            self.rules.blocks4.remove(&key)?;
        }
        for (key, _) in tables.blocks6() {
            self.rules.blocks6.remove(&key)?;
        }
        for key in tables.ports.keys() {
            self.rules.ports.remove(key)?;
        }
        for class in plan.classes.keys().chain(delta.classes.keys()) {
            let key = netqos_bpf::rules::ClassKey {
                chain: id.0.get(),
                class: class.0.get(),
            };
            self.rules.classes.remove(&key)?;
        }
        self.changes += 1;
        Ok(())
    }

    /// Notes what became of something.
    fn note(&mut self, subject: Subject, plan: Option<&NodePlan>, result: Result<()>) {
        let problem = result.err().map(|error| {
            let object = match (&subject, plan) {
                (Subject::Endpoint(id), Some(plan)) => plan
                    .endpoints
                    .get(id)
                    .map(|endpoint| ObjectRef::Pod(endpoint.pod.name.clone())),
                _ => None,
            };
            Problem {
                object: object.unwrap_or_else(|| ObjectRef::Node(String::new())),
                reason: match &error {
                    Error::OpenNamespace { .. } | Error::NoPodInterface { .. } => {
                        Reason::EndpointUnreachable
                    }
                    error if error.is_unsupported() => Reason::KernelFeatureMissing,
                    _ => Reason::UpdateFailed,
                },
                message: format!("rules are not in force: {error}"),
            }
        });
        self.set(subject, problem);
    }

    fn set(&mut self, subject: Subject, problem: Option<Problem>) {
        match problem {
            Some(problem) => {
                self.problems.insert(subject, problem);
            }
            None => {
                self.problems.remove(&subject);
            }
        }
    }

    fn outcome(&self) -> Outcome {
        Outcome {
            endpoints: self
                .sites
                .iter()
                .map(|(id, site)| {
                    let status = EndpointStatus {
                        interface: site.link.clone(),
                        hook: site.hook,
                        number: site.number,
                    };
                    (id.clone(), status)
                })
                .collect(),
            meters: self
                .meters
                .iter()
                .map(|(rule, meter)| (rule.clone(), meter.status.clone()))
                .collect(),
            problems: self.problems.values().cloned().collect(),
            changes: self.changes,
        }
    }
}

/// The digest by which an endpoint's number is known to be its own.
fn owner(id: &EndpointId) -> u64 {
    Digest::of(id).get()
}

/// Writes a value, unless it is there already.
fn put<K: Plain, V: Plain + PartialEq>(
    table: &Table<K, V>,
    key: &K,
    value: &V,
    changes: &mut u64,
) -> Result<()> {
    if table.get(key)?.as_ref() != Some(value) {
        table.put(key, value)?;
        *changes += 1;
    }
    Ok(())
}
