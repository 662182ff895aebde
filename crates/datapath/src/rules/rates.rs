//! Rules' rates: which meters a change touches, and what each shall be.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use netqos_core::plan::{Attach, Chain, ChainId, RuleId};
use netqos_core::{Mode, NodePlan, ObjectRef, PlanDelta, Problem, Reason};
use netqos_netlink::qdisc::Statistics;

use super::endpoints::Arrival;
use super::engine::RuleDatapath;
use super::meters::{self, LINKS_OF_QUEUE, Made, Settings, Wanted, Way};
use super::problems::Subject;
use super::tables::ChainTables;
use crate::Result;
use crate::error::Errors;
use crate::stall::{Pace, StallState};

/// A packet of this size passes every meter, whatever the pods' interfaces say.
const LEAST_MTU: u32 = 1500;
/// How long a change may take to remove pairs that no rule uses, where they leave no room for those of its rules.
const ROOM_WITHIN: Duration = Duration::from_millis(50);

impl RuleDatapath {
    /// Makes the meters that this change touches, of rule lists that pods have left, too. Says
    /// which rules have another limiter or queue than before.
    pub(super) fn make_meters(
        &mut self,
        plan: &NodePlan,
        delta: &PlanDelta,
        left: BTreeSet<ChainId>,
        arrivals: &[Arrival],
    ) -> BTreeSet<RuleId> {
        let touched = self.touched(plan, delta, left);
        if touched.is_empty() {
            return BTreeSet::new();
        }
        let wanted = self.settings(plan, &touched, arrivals);
        let queues = wanted
            .iter()
            .filter(|(_, settings)| settings.way == Way::Queue);
        let new = queues.filter(|(rule, _)| !self.has_queue(rule)).count();
        if new > 0 {
            self.make_room(new);
        }
        let mut other = BTreeSet::new();
        for (rule, settings) in wanted {
            if let Some(meter) = self.retired.meters.remove(rule) {
                self.meters.insert(rule.clone(), meter);
            }
            let numbers = |meters: &BTreeMap<RuleId, meters::Meter>| {
                meters.get(rule).map(|meter| meter.numbers)
            };
            let before = numbers(&self.meters);
            self.make_meter(&Wanted { rule, settings });
            if numbers(&self.meters) != before {
                other.insert(rule.clone());
            }
        }
        other
    }

    /// The rules with a rate in rule lists that come, and in those that pods come to or leave.
    fn touched(
        &self,
        plan: &NodePlan,
        delta: &PlanDelta,
        left: BTreeSet<ChainId>,
    ) -> BTreeSet<RuleId> {
        let mut chains = left;
        let coming = delta.chains.iter().filter(|(_, chain)| chain.is_some());
        chains.extend(coming.map(|(id, _)| *id));
        for id in delta.endpoints.keys() {
            chains.extend(plan.endpoints.get(id).and_then(|endpoint| endpoint.chain));
            chains.extend(self.in_force(id));
        }
        let rules = |chain: &Chain| -> Vec<RuleId> {
            let rules = chain.rules.iter();
            let metered = rules.filter(|rule| rule.bandwidth.is_some());
            metered.map(|rule| rule.id.clone()).collect()
        };
        let mut touched = BTreeSet::new();
        for id in chains {
            match (plan.chains.get(&id), self.chains.get(&id)) {
                (Some(chain), _) => touched.extend(rules(chain)),
                (None, Some(tables)) => touched.extend(tables.metered().cloned()),
                (None, None) => {}
            }
        }
        touched
    }

    /// What the meters of these rules shall be: as all pods that share them need it.
    fn settings<'p>(
        &self,
        plan: &'p NodePlan,
        touched: &BTreeSet<RuleId>,
        arrivals: &[Arrival],
    ) -> BTreeMap<&'p RuleId, Settings> {
        let mut of_chains: BTreeMap<ChainId, (bool, u32)> = BTreeMap::new();
        for (id, endpoint) in &plan.endpoints {
            let Some(chain) = endpoint.chain else {
                continue;
            };
            let arriving = arrivals.iter().find(|arrival| arrival.id == *id);
            let site = arriving.map(|arrival| &arrival.site);
            let mtu = site.or_else(|| self.sites.get(id)).map(|site| site.mtu);
            let (has_no_queue, largest) = of_chains.entry(chain).or_default();
            *has_no_queue |= matches!(endpoint.attach, Attach::PodNetns(_));
            *largest = (*largest).max(mtu.unwrap_or_default());
        }
        let mut wanted: BTreeMap<&RuleId, Settings> = BTreeMap::new();
        for (id, chain) in &plan.chains {
            let (has_no_queue, mtu) = of_chains.get(id).copied().unwrap_or_default();
            for rule in &chain.rules {
                let Some(bandwidth) = rule.bandwidth.filter(|_| touched.contains(&rule.id)) else {
                    continue;
                };
                let settings = wanted.entry(&rule.id).or_insert(Settings {
                    bandwidth,
                    way: match rule.mode {
                        Mode::Enforce => Way::Queue,
                        Mode::Shadow => Way::Shadow,
                    },
                    mtu: LEAST_MTU,
                });
                if has_no_queue && settings.way == Way::Queue {
                    settings.way = Way::Police;
                }
                settings.mtu = settings.mtu.max(mtu);
            }
        }
        wanted
    }

    /// Returns the state of its queue, if that was read.
    fn make_meter(&mut self, wanted: &Wanted<'_>) -> Option<(Statistics, Pace)> {
        let subject = Subject::Meter(wanted.rule.clone());
        let is_right = |meter: &meters::Meter| meter.made_for == wanted.settings;
        if self.problems.get(&subject).is_none()
            && self.meters.get(wanted.rule).is_some_and(is_right)
        {
            return None;
        }
        let (made, without_queue) = self.make_queue_or_policer(wanted);
        let about = |reason, message| about(wanted.rule, reason, message);
        let rule = wanted.rule.clone();
        let problem = match (&made, without_queue) {
            (Err(error), _) => Some(about(
                Reason::UpdateFailed,
                format!("egress[{}].bandwidth is not in force: {error}", rule.index),
            )),
            (Ok(_), Some((reason, why))) => Some(about(
                reason,
                format!(
                    "egress[{}].bandwidth has no queue, so excess is dropped at once: {why}",
                    rule.index
                ),
            )),
            (Ok(_), None) => None,
        };
        self.problems.set(subject, problem);
        let Made {
            meter,
            changes,
            dropped,
            queue_state,
        } = made.ok()?;
        let asked = wanted.settings.bandwidth.burst;
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
        self.problems.set(Subject::Burst(rule.clone()), raised);
        self.changes += changes;
        self.dropped += u64::from(dropped);
        self.meters.insert(rule, meter);
        queue_state
    }

    /// Makes a meter, or in place of a queue that cannot be had a policer, and says why.
    fn make_queue_or_policer(
        &mut self,
        wanted: &Wanted<'_>,
    ) -> (Result<Made>, Option<(Reason, String)>) {
        let is_queue = wanted.settings.way == Way::Queue;
        let why = if is_queue
            && !(self.has_links_for(wanted.rule) && self.has_room_for(wanted.rule))
        {
            let most = self.most_links;
            let message = format!(
                "the queues of other rules have the {most} links that netqos makes on a node; use fewer \
                 rules with a rate for the pods of this node"
            );
            (Reason::LinkLimitReached, message)
        } else {
            let made = meters::apply(&mut self.host.socket, &self.pins, &self.rules, wanted);
            match made {
                Err(error) if is_queue => (Reason::KernelFeatureMissing, error.to_string()),
                made => return (made, None),
            }
        };
        let mut policing = *wanted;
        policing.settings.way = Way::Police;
        let made = meters::apply(&mut self.host.socket, &self.pins, &self.rules, &policing);
        (made, Some(why))
    }

    /// Returns true if the queues of all other rules leave links for one of this rule.
    fn has_links_for(&self, rule: &RuleId) -> bool {
        let others = self.meters.iter();
        let others = others.filter(|(other, meter)| *other != rule && meter.numbers.queue != 0);
        (others.count() + 1) * LINKS_OF_QUEUE <= self.most_links
    }

    /// Makes room for so many new queues, as far as pairs that no rule uses any more are in their way and can be removed in
    /// [`ROOM_WITHIN`]. The packets in them are lost. Once for a change, since it lists all links.
    fn make_room(&mut self, queues: usize) {
        let new_links = (queues * LINKS_OF_QUEUE).min(self.most_links);
        let enough = self.most_links - new_links;
        if self.rule_links.is_none_or(|links| links > enough) {
            let mut errors = Errors::default();
            let removed = self.remove_spare_links(enough, ROOM_WITHIN, &mut errors);
            errors.note(removed);
            self.problems.note(Subject::Leftovers, errors.finish());
        }
        self.rule_links = self.rule_links.map(|links| links + new_links);
    }

    /// Returns true if there may be a pair for this rule beside those that no rule uses any more: all together are never
    /// more than twice the limit.
    fn has_room_for(&mut self, rule: &RuleId) -> bool {
        let is_room = { self.rule_links }.is_none_or(|links| links <= 2 * self.most_links);
        // An earlier process may have made it.
        is_room || meters::has_pair(&mut self.host.socket, rule).unwrap_or(false)
    }

    fn has_queue(&self, rule: &RuleId) -> bool {
        let meter = self.meters.get(rule);
        meter.is_some_and(|meter| meter.numbers.queue != 0)
    }

    /// Gives queues to rules that had none for want of links, while links are left. Returns those rules.
    fn give_queues(&mut self) -> BTreeSet<RuleId> {
        let meters = self.meters.iter();
        let waiting = meters.filter(|(rule, _)| self.lacks_links(rule));
        let waiting = waiting.map(|(rule, meter)| (rule.clone(), meter.made_for));
        let waiting: Vec<(RuleId, Settings)> = waiting.collect();
        if !waiting.is_empty() {
            self.make_room(waiting.len());
        }
        let mut given = BTreeSet::new();
        for (rule, mut settings) in waiting {
            if !self.has_links_for(&rule) {
                break;
            }
            settings.way = Way::Queue;
            self.make_meter(&Wanted {
                rule: &rule,
                settings,
            });
            if self.lacks_links(&rule) {
                break;
            }
            given.insert(rule);
        }
        given
    }

    fn lacks_links(&self, rule: &RuleId) -> bool {
        let problem = self.problems.get(&Subject::Meter(rule.clone()));
        problem.is_some_and(|problem| problem.reason == Reason::LinkLimitReached)
    }

    /// Restores the queues of rules, all or those at these links, and empties stalled ones. Returns the number
    /// of repairs.
    pub(super) fn inspect_meters(&mut self, plan: &NodePlan, links: Option<&BTreeSet<u32>>) -> u64 {
        let (mut other, mut restored) = (BTreeSet::new(), 0);
        let queues = self.meters.iter().filter(|(_, meter)| {
            meter.numbers.queue != 0 && links.is_none_or(|links| meter.is_at(links))
        });
        let known: Vec<(RuleId, meters::Meter)> = queues
            .map(|(rule, meter)| (rule.clone(), meter.clone()))
            .collect();
        for (rule, before) in known {
            let now = Instant::now();
            let subject = Subject::Meter(rule.clone());
            let host = &mut self.host.socket;
            if self.repairs.is_exhausted(&subject, now)
                && !meters::is_intact(host, &self.rules, &before).unwrap_or(false)
            {
                let message = format!(
                    "another process keeps changing the queue of egress[{}].bandwidth; netqos restores \
                     it five times a minute",
                    rule.index
                );
                let problem = about(&rule, Reason::RepairContested, message);
                self.problems.set(subject, Some(problem));
                continue;
            }
            self.meters.remove(&rule);
            let changes = self.changes;
            let queue_state = self.make_meter(&Wanted {
                rule: &rule,
                settings: before.made_for,
            });
            if self.changes > changes {
                tracing::warn!(%rule, "restored queue");
                self.repairs.record(subject, now);
                restored += 1;
            }
            if let Some((statistics, pace)) = queue_state {
                restored += u64::from(self.check_queue(&rule, &statistics, &pace, now));
            }
            match self.meters.get(&rule) {
                None => {
                    self.meters.insert(rule, before);
                }
                Some(meter) if meter.numbers != before.numbers => {
                    other.insert(rule);
                }
                Some(_) => {}
            }
        }
        if links.is_none() {
            other.extend(self.give_queues());
        }
        if !other.is_empty() {
            self.write_chains(plan, &PlanDelta::default(), &other);
        }
        restored
    }

    /// Empties a rule's queue if it is stalled. Returns true if it was.
    fn check_queue(
        &mut self,
        rule: &RuleId,
        statistics: &Statistics,
        pace: &Pace,
        now: Instant,
    ) -> bool {
        let detector = self.stalls.entry(rule.clone()).or_default();
        let has_stalled = detector.observe(now, statistics, pace) == StallState::Stalled;
        let mut problem = None;
        if has_stalled && let Some(meter) = self.meters.get(rule) {
            let result = match meters::empty(&mut self.host.socket, meter) {
                Ok(packets) => {
                    self.dropped += u64::from(packets);
                    format!("netqos dropped the {packets} packets in it")
                }
                Err(why) => format!("netqos cannot empty it: {why}; it tries again"),
            };
            let message = format!(
                "the queue of egress[{}].bandwidth stopped sending; {result}",
                rule.index
            );
            problem = Some(about(rule, Reason::QueueStalled, message));
        }
        self.problems.set(Subject::Queue(rule.clone()), problem);
        has_stalled
    }

    /// Retires the meters that no rule list names any more, of the plan or still gone by.
    pub(super) fn retire_meters(&mut self, plan: &NodePlan) {
        let of_plan = plan.chains.values().flat_map(|chain| &chain.rules);
        let mut named: BTreeSet<&RuleId> = of_plan
            .filter(|rule| rule.bandwidth.is_some())
            .map(|rule| &rule.id)
            .collect();
        let left = self.chains.iter();
        let left = left.filter(|(id, _)| !plan.chains.contains_key(id));
        named.extend(left.flat_map(|(_, tables): (_, &ChainTables)| tables.names()));
        let is_gone = |rule: &&RuleId| !named.contains(rule);
        let gone: Vec<RuleId> = self.meters.keys().filter(is_gone).cloned().collect();
        for rule in gone {
            self.stalls.remove(&rule);
            self.problems.set(Subject::Meter(rule.clone()), None);
            self.problems.set(Subject::Queue(rule.clone()), None);
            self.problems.set(Subject::Burst(rule.clone()), None);
            if let Some(meter) = self.meters.remove(&rule) {
                self.retired.meters.insert(rule, meter);
            }
        }
    }
}

/// A problem of a rule's policy.
fn about(rule: &RuleId, reason: Reason, message: String) -> Problem {
    Problem {
        object: ObjectRef::Policy(rule.policy.clone()),
        reason,
        message,
    }
}
