//! Applying a plan.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use netqos_api::HookChoice;
use netqos_bpf::Pins;
use netqos_bpf::rules::Rules;
use netqos_core::plan::{ChainId, RuleId};
use netqos_core::{EndpointId, NodePlan, PlanDelta};

use super::crowded::ServiceLimits;
use super::endpoints::InForce;
use super::meters::{MOST_RULE_LINKS, Meter};
use super::numbers::NetworkNumbers;
use super::peers::Detours;
use super::problems::{Problems, Subject};
use super::retired::{Grace, Retired};
use super::services::Services;
use super::site::{HookPrograms, Site};
use super::tables::{ChainTables, rule_number};
use super::{EndpointStatus, Outcome, RuleCount, strays};
use crate::endpoint::Side;
use crate::record::Records;
use crate::repairs::RepairBudget;
use crate::stall::StallDetector;
use crate::{Paths, Result};

/// Puts the rules of a plan in force, on the node (network namespace) in which it was opened.
#[derive(Debug)]
pub struct RuleDatapath {
    pub(super) paths: Paths,
    pub(super) choice: HookChoice,
    pub(super) records: Records,
    pub(super) host: Side,
    pub(super) pins: Pins,
    pub(super) rules: Rules,
    /// What stands at endpoints' interfaces.
    pub(super) sites: BTreeMap<EndpointId, Site>,
    pub(super) entries: BTreeMap<EndpointId, InForce>,
    pub(super) chains: BTreeMap<ChainId, ChainTables>,
    pub(super) meters: BTreeMap<RuleId, Meter>,
    pub(super) networks: NetworkNumbers,
    pub(super) detours: Detours,
    pub(super) services: Services,
    pub(super) problems: Problems,
    /// The programs on the host's tcx hooks where the last inspection that read everything found the rules program first.
    pub(super) inspected: BTreeMap<EndpointId, HookPrograms>,
    /// How often each endpoint's program was found behind somebody else's.
    pub(super) contests: BTreeMap<EndpointId, u32>,
    /// The budget of repairs of programs and queues.
    pub(super) repairs: RepairBudget<Subject>,
    /// The stall detectors of the queues.
    pub(super) stalls: BTreeMap<RuleId, StallDetector>,
    /// The most links that the queues of rules may take.
    pub(super) most_links: usize,
    /// An upper bound of the number of links of pairs on the node, those that no rule uses any more included; `None` before
    /// they were listed.
    pub(super) rule_links: Option<usize>,
    pub(super) service_limits: ServiceLimits,
    /// Some endpoint goes by a rule list that the plan does not know any more.
    pub(super) is_stuck: bool,
    pub(super) retired: Retired,
    pub(super) grace: Grace,
    /// Some counter or share may be of an endpoint or a rule that is gone since the last tidy.
    pub(super) is_untidy: bool,
    /// What was found to be in force, last.
    told: Outcome,
    /// Writes to the kernel since the last change began.
    pub(super) changes: u64,
    /// Packets that changes and repairs of queues dropped since the last change began.
    pub(super) dropped: u64,
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
            entries: BTreeMap::new(),
            chains: BTreeMap::new(),
            meters: BTreeMap::new(),
            networks: NetworkNumbers::default(),
            detours: Detours::default(),
            services: Services::default(),
            problems: Problems::default(),
            inspected: BTreeMap::new(),
            contests: BTreeMap::new(),
            repairs: RepairBudget::default(),
            stalls: BTreeMap::new(),
            most_links: MOST_RULE_LINKS,
            rule_links: None,
            service_limits: ServiceLimits::default(),
            is_stuck: false,
            retired: Retired::default(),
            grace: Grace::default(),
            is_untidy: true,
            told: Outcome::default(),
            changes: 0,
            dropped: 0,
        })
    }

    /// The loaded programs.
    pub(crate) fn programs(&self) -> &Rules {
        &self.rules
    }

    /// The queues of rules take at most so many links, in place of [`MOST_RULE_LINKS`].
    #[must_use]
    pub fn with_most_links(self, most_links: usize) -> Self {
        Self { most_links, ..self }
    }

    /// Replaces the default limits of the work for Services.
    #[must_use]
    pub fn with_service_limits(self, service_limits: ServiceLimits) -> Self {
        Self {
            service_limits,
            ..self
        }
    }

    /// Makes the kernel hold this plan and nothing else, whatever is there. What is right already
    /// is not touched.
    pub fn sync(&mut self, plan: &NodePlan) -> Outcome {
        if self.may_be_read() {
            // Peers get their last classes, whatever detour they are on.
            self.grace.wait();
        }
        self.chains.clear();
        self.meters.clear();
        self.services.clear();
        self.retired = Retired::default();
        self.problems
            .clear(|endpoint| plan.endpoints.contains_key(endpoint));
        self.detours = Detours::default();
        self.networks = NetworkNumbers::default();
        self.rules.listen_again();
        let read = self.read_endpoints(plan).and(self.read_crowded());
        self.problems.note(Subject::Leftovers, read);
        // Before the peers that their rules go to.
        self.remove_strangers();
        let mut everything = NodePlan::default().delta_to(plan);
        self.add_leftover_peers(plan, &mut everything);
        // Nothing is known of what may be on its way out.
        self.is_stuck = true;
        self.change(plan, &everything);
        self.release(plan);
        self.settle(plan);
        let purged = self.purge(plan);
        self.problems.note(Subject::Leftovers, purged);
        let (strays, removed) = strays::remove(&mut self.host, &self.rules, &self.paths);
        self.changes += strays;
        self.problems.note(Subject::Leftovers, removed);
        self.outcome()
    }

    /// Makes what changed; `plan` is the plan after the change.
    pub fn apply(&mut self, plan: &NodePlan, delta: &PlanDelta) -> Outcome {
        let was_stranded = self.is_stuck && self.is_stranded();
        self.change(plan, delta);
        // What was kept for somebody, unread, goes when nobody needs it any more.
        if was_stranded && !self.is_stranded() {
            let purged = self.purge(plan);
            self.problems.note(Subject::Leftovers, purged);
            self.settle(plan);
        }
        self.outcome()
    }

    /// Each thing before what refers to it, and retired when nothing does any more.
    fn change(&mut self, plan: &NodePlan, delta: &PlanDelta) {
        (self.changes, self.dropped) = (0, 0);
        if self.must_release_before(delta) {
            self.release(plan);
        }
        self.retired.revive_classes(delta);
        // Peers and Services alone switch nobody: most changes are such.
        let is_light = delta.chains.is_empty() && delta.endpoints.is_empty() && !self.is_stuck;
        if is_light {
            self.write_chains(plan, delta, &BTreeSet::new());
            self.widen_services(plan, delta);
            self.write_peers(plan, delta, &BTreeSet::new());
        } else {
            self.is_untidy = true;
            let left = self.remove_endpoints(plan, delta);
            let arrivals = self.find_arrivals(plan, delta);
            let other_meters = self.make_meters(plan, delta, left, &arrivals);
            self.write_chains(plan, delta, &other_meters);
            self.widen_services(plan, delta);
            let mut going = self.going_chains(plan);
            going.extend(self.detached_chains(plan));
            self.write_peers(plan, delta, &going);
            self.switch_all(plan, arrivals);
            self.is_stuck = !self.going_chains(plan).is_empty();
            self.retire_chains(plan, delta);
            self.tell(plan);
        }
        if !self.problems.are_peers_behind() {
            self.retire_classes(delta);
        }
        if self.grace.is_over() {
            // No program can have read what is retired.
            self.release(plan);
        }
        self.settle(plan);
    }

    /// Ends a change, as far as programs may not need what it replaced.
    pub(super) fn settle(&mut self, plan: &NodePlan) {
        if !self.is_stuck && !self.may_be_read() {
            self.narrow_services(plan);
        }
        self.note_conntrack();
        self.note_service_limits(plan);
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
        if endpoints.is_empty() || rules.is_empty() {
            // The table has a million buckets.
            return Ok(Vec::new());
        }
        let counters = self.rules.counters.all()?;
        let mut counts = Vec::with_capacity(counters.len());
        for (key, counter) in counters {
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
        counts.sort_unstable_by(|a, b| (&a.endpoint, &a.rule).cmp(&(&b.endpoint, &b.rule)));
        Ok(counts)
    }

    /// Finds out what is in force, for the outcomes from now on.
    pub(super) fn tell(&mut self, plan: &NodePlan) {
        let sites = self.sites.iter();
        let in_force = sites.filter(|(id, _)| {
            let is_contested = self.problems.is_contested(&Subject::Hook((*id).clone()));
            self.is_in_force(id, plan) && !is_contested
        });
        let endpoints = in_force.map(|(id, site)| {
            let status = EndpointStatus {
                interface: site.link.clone(),
                hook: site.hook,
                number: site.number,
            };
            (id.clone(), status)
        });
        self.told = Outcome {
            endpoints: Arc::new(endpoints.collect()),
            meters: Arc::new(
                self.meters
                    .iter()
                    .filter(|(rule, _)| {
                        !self.problems.is_contested(&Subject::Meter((*rule).clone()))
                    })
                    .map(|(rule, meter)| (rule.clone(), meter.status.clone()))
                    .collect(),
            ),
            ..Outcome::default()
        };
    }

    pub(super) fn outcome(&self) -> Outcome {
        Outcome {
            problems: self.problems.all().cloned().collect(),
            changes: self.changes,
            dropped: self.dropped,
            ..self.told.clone()
        }
    }
}
