//! What is to be seen of the engine, for people and probes.
//!
//! A node has as many as a hundred pods with hundreds of rules each. What is told of them is written
//! pod by pod, and nothing of it is kept: an answer takes as much memory as its text, and who only
//! asks whether all is well gets nothing else made.

use std::collections::BTreeMap;

use netqos_api::koordinator::BackendKind;
use netqos_bpf::Pins;
use netqos_classes::{Counted, Trouble};
use netqos_core::classes::{ClassPlan, Shares, TrafficClass};
use netqos_core::plan::{Attach, ChainRule, Endpoint, RuleId};
use netqos_core::{BitRate, Direction, EndpointId, Mode, NodePlan, Problem, Reason};
use netqos_daemon::Check;
use netqos_datapath::rules::{Outcome, RuleCount};
use serde::{Serialize, Serializer};

use super::Engine;
use super::limits::attachment;
use crate::classes::Shown;
use crate::multinet::attachments;
use crate::status::{
    AttachmentStatus, ClassStatus, Counts, DirectionStatus, LimitStatus, LineStatus, LinkStatus,
    PodStatus, ProblemStatus, Reconciled, RuleStatus, ShareStatus,
};

/// The engine, and what was read of the kernel for one answer.
pub(super) struct Glance<'e> {
    pub(super) engine: &'e Engine,
    counts: RuleCounts,
    pins: Option<Pins>,
    /// What is not as it should be, with what became known by reading.
    pub(super) problems: Vec<Problem>,
}

/// What was counted, in the order of endpoints and rules.
#[derive(Debug, Default)]
struct RuleCounts(Vec<RuleCount>);

/// The fields of [`crate::Status`], which reads them.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StatusOf<'e> {
    version: &'static str,
    node: &'e str,
    checks: Vec<Check>,
    reconciled: Reconciled,
    objects: BTreeMap<&'static str, u64>,
    links: LinkStatus,
    class_backend: String,
    lines: Vec<LineStatus>,
    pod_classes: Vec<ClassStatus>,
    pods: Pods<'e>,
    attachments: Vec<AttachmentStatus>,
    problems: Vec<ProblemStatus>,
}

/// What shall be against what is.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct State<'e> {
    desired: &'e NodePlan,
    desired_lines: &'e ClassPlan,
    actual: Actual<'e>,
    reconciled: Reconciled,
    objects: BTreeMap<&'static str, u64>,
    problems: Vec<ProblemStatus>,
}

#[derive(Serialize)]
struct Actual<'e> {
    rules: &'e Outcome,
    pods: Pods<'e>,
    lines: Shown,
}

/// Each is made when it is written.
struct Pods<'e>(&'e Glance<'e>);

impl Serialize for Pods<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let endpoints = self.0.endpoints().into_iter();
        serializer.collect_seq(endpoints.map(|(id, endpoint)| self.0.pod(id, endpoint)))
    }
}

impl Engine {
    /// What was done.
    pub fn reconciled(&self) -> Reconciled {
        let uplinks = self.classes.shown();
        Reconciled {
            uplinks_restored: uplinks.restored,
            queues_emptied: self.reconciled.queues_emptied + uplinks.emptied,
            dropped: self.reconciled.dropped + uplinks.dropped,
            ..self.reconciled
        }
    }

    /// The answer of `/v1/status`: a [`crate::Status`] in JSON.
    pub(crate) fn status(&self) -> serde_json::Result<Vec<u8>> {
        let glance = Glance::at(self);
        serde_json::to_vec(&StatusOf {
            version: netqos_version::VERSION,
            node: &self.options.node,
            checks: self.checks(),
            reconciled: self.reconciled(),
            objects: self.objects(),
            links: self.links(),
            class_backend: self.classes.backend().to_string(),
            lines: self.lines(),
            pod_classes: self.classes.told(),
            pods: Pods(&glance),
            attachments: glance.attachments(),
            problems: glance.problems.iter().map(ProblemStatus::from).collect(),
        })
    }

    /// The answer of `/debug/state`, in JSON.
    pub(crate) fn state(&self) -> serde_json::Result<Vec<u8>> {
        let glance = Glance::at(self);
        serde_json::to_vec(&State {
            desired: self.index.plan(),
            desired_lines: self.classes.plan(),
            actual: Actual {
                rules: &self.outcome,
                pods: Pods(&glance),
                lines: self.classes.shown(),
            },
            reconciled: self.reconciled(),
            objects: self.objects(),
            problems: glance.problems.iter().map(ProblemStatus::from).collect(),
        })
    }

    /// How many objects of each kind the sources know.
    pub(super) fn objects(&self) -> BTreeMap<&'static str, u64> {
        let mut objects = BTreeMap::new();
        for (kind, many) in self.sources.values().flat_map(|(_, objects)| objects) {
            *objects.entry(*kind).or_default() += many;
        }
        objects
    }

    /// The links of netqos; none where the kernel does not list them.
    pub(super) fn links(&self) -> LinkStatus {
        LinkStatus::read().unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot count links");
            LinkStatus::default()
        })
    }

    pub(super) fn lines(&self) -> Vec<LineStatus> {
        let shown = self.classes.shown();
        let counters = self.classes.counters();
        let lines = self.classes.plan().lines.iter();
        lines
            .map(|(name, shares_of)| {
                let here = |it: &&Trouble| it.line.as_ref() == Some(name) && it.part.is_none();
                let troubles = shown.troubles.iter().filter(here);
                let mut failing: Vec<&str> = troubles.map(|it| it.what.as_str()).collect();
                let by = shown.kind.filter(|_| shown.lines.contains(name));
                let asked = self.classes.backend();
                if by != Some(asked) && failing.is_empty() {
                    let why = shown.failure.as_deref();
                    failing.push(match asked {
                        BackendKind::None if self.classes.koordlet_divides() == Some(true) => {
                            "it is left to koordlet, as netQOSPolicy says"
                        }
                        BackendKind::None => "nobody divides it: the class backend is none",
                        _ => why.unwrap_or("it is not divided yet"),
                    });
                }
                let ways = [Direction::Ingress, Direction::Egress].into_iter();
                let each = ways.flat_map(|way| TrafficClass::ALL.map(|class| (way, class)));
                let shares = each.map(|(direction, class)| {
                    let share = shares_of.of(direction).of(class);
                    ShareStatus {
                        direction: direction.to_string(),
                        class: class.to_string(),
                        min: share.min.bits_per_second(),
                        max: share.max.bits_per_second(),
                        rate: counters.rate(name, direction, class),
                        counts: counters.of(name, direction, class).map(counted),
                    }
                });
                let directions = [Direction::Ingress, Direction::Egress].map(|direction| {
                    let taken =
                        TrafficClass::ALL.map(|class| counters.rate(name, direction, class));
                    direction_of(direction, shares_of.of(direction), taken.into_iter().sum())
                });
                LineStatus {
                    name: name.to_string(),
                    divided_by: by.map_or("", BackendKind::name).to_owned(),
                    failing: failing.join("; "),
                    shares: shares.collect(),
                    directions: directions.into(),
                }
            })
            .collect()
    }

    /// What has to be well before it is ready.
    pub fn checks(&self) -> Vec<Check> {
        let check = |name: &str, ok: bool, message: &str| Check {
            name: name.to_owned(),
            ok,
            message: if ok { "" } else { message }.to_owned(),
        };
        let mut checks: Vec<Check> = self
            .options
            .sources
            .iter()
            .map(|source| {
                let spoke = self.sources.contains_key(source);
                let why = self.waiting.get(source);
                check(source, spoke, why.map_or("not read yet", String::as_str))
            })
            .collect();
        checks.push(check(
            "sync",
            self.started,
            "the plan was not put in force yet",
        ));
        for (name, what) in [("rules", "rules"), ("limits", "limits")] {
            let problem = self.node_problems.get(what);
            let message = problem.map_or("", |problem| problem.message.as_str());
            checks.push(check(name, problem.is_none(), message));
        }
        checks
    }
}

impl<'e> Glance<'e> {
    /// Reads what the kernel has counted.
    pub(super) fn at(engine: &'e Engine) -> Self {
        let mut problems = engine.problems();
        problems.extend(engine.problem_log.stalls().cloned());
        let counts = match engine.rules.as_ref().map(|rules| rules.counts()) {
            Some(Ok(counts)) => RuleCounts(counts),
            Some(Err(why)) => {
                problems.insert(Problem {
                    object: netqos_core::ObjectRef::Node(engine.options.node.clone()),
                    reason: Reason::UpdateFailed,
                    message: format!("the counters of rules cannot be read: {why}"),
                });
                RuleCounts::default()
            }
            None => RuleCounts::default(),
        };
        Self {
            engine,
            counts,
            pins: Pins::open(engine.options.paths.bpffs()).ok().flatten(),
            problems: problems.into_iter().collect(),
        }
    }

    /// The interfaces that something is for, by the names of their pods.
    pub(super) fn endpoints(&self) -> Vec<(&'e EndpointId, &'e Endpoint)> {
        let mut endpoints: Vec<_> = self.engine.index.plan().endpoints.iter().collect();
        endpoints.sort_by_cached_key(|(id, endpoint)| {
            let interface = endpoint.attach.interface();
            let interface = interface.map(|one| one.name.clone());
            (endpoint.pod.name.clone(), id.network.to_string(), interface)
        });
        endpoints
    }

    /// The networks that pods are attached to. What limits an interface is what the plan says, if it has that interface.
    fn attachments(&self) -> Vec<AttachmentStatus> {
        let index = &self.engine.index;
        let mut attachments = attachments(&self.engine.options.multinet_records, |pod| {
            index.annotated_interface(pod)
        });
        for attached in &mut attachments {
            let mut endpoints = self.engine.index.plan().endpoints.values();
            let of = endpoints.find(|endpoint| {
                let name = &endpoint.pod.name;
                let interface = endpoint.attach.interface();
                interface.is_some_and(|it| it.name == attached.interface)
                    && (&*name.namespace, &*name.name) == (&*attached.namespace, &*attached.name)
            });
            if let Some(endpoint) = of {
                let rate = |way| Some(endpoint.limits.of(way)?.rate.bits_per_second());
                attached.ingress = rate(Direction::Ingress).or(attached.ingress);
                attached.egress = rate(Direction::Egress).or(attached.egress);
            }
        }
        attachments
    }

    fn pod(&self, id: &EndpointId, endpoint: &Endpoint) -> PodStatus {
        let in_force = self.engine.outcome.endpoints.get(id);
        let limits = self.limits(endpoint);
        let interface = endpoint.attach.interface();
        PodStatus {
            namespace: endpoint.pod.name.namespace.to_string(),
            name: endpoint.pod.name.name.to_string(),
            uid: endpoint.pod.uid.to_string(),
            network: id.network.to_string(),
            interface: interface.map_or_else(String::new, |one| one.name.clone()),
            addresses: endpoint.addresses.iter().map(ToString::to_string).collect(),
            hook_on: in_force.map_or_else(String::new, |status| status.interface.clone()),
            hook: in_force.map_or_else(String::new, |status| word(&status.hook)),
            failing: self.failing(id, endpoint, &limits),
            limits: limits.into_iter().map(|(_, limit)| limit).collect(),
            rules: self
                .rules(endpoint)
                .map(|rule| self.rule(rule, self.counts(id, &rule.id)))
                .collect(),
        }
    }

    /// What is not in force, and why; empty when all is.
    pub(super) fn failing(
        &self,
        id: &EndpointId,
        endpoint: &Endpoint,
        limits: &[(Direction, LimitStatus)],
    ) -> String {
        if let Attach::Unsupported { reason } = &endpoint.attach {
            return reason.clone();
        }
        let mut failing = Vec::new();
        if endpoint.chain.is_some() && !self.engine.outcome.endpoints.contains_key(id) {
            failing.push("rules are not in force");
        }
        let meters = &self.engine.outcome.meters;
        let is_unlimited = |rule: &ChainRule| {
            let is_limited = rule.bandwidth.is_some() && rule.mode == Mode::Enforce;
            is_limited && !meters.contains_key(&rule.id)
        };
        if self.rules(endpoint).any(is_unlimited) {
            failing.push("rates of rules are not programmed");
        }
        let is_unverified =
            |limit: &LimitStatus| limit.reason == Reason::IngressNotVerified.to_string();
        let mut all = limits.iter().map(|(_, limit)| limit);
        if all.any(|limit| !limit.in_force && !is_unverified(limit)) {
            failing.push("limits are not in force");
        }
        failing.join("; ")
    }

    /// Its rules, the one of highest precedence first.
    pub(super) fn rules(&self, endpoint: &Endpoint) -> impl Iterator<Item = &'e ChainRule> {
        let chains = &self.engine.index.plan().chains;
        let chain = endpoint.chain.and_then(|chain| chains.get(&chain));
        chain.into_iter().flat_map(|chain| &chain.rules)
    }

    /// What was counted of a rule for an endpoint.
    pub(super) fn counts(&self, endpoint: &EndpointId, rule: &RuleId) -> Counts {
        self.counts.of(endpoint, rule)
    }

    /// What it is held to as a whole.
    pub(super) fn limits(&self, endpoint: &Endpoint) -> Vec<(Direction, LimitStatus)> {
        let attachment = endpoint.attach.interface().and_then(attachment);
        let known = self.engine.limits.as_ref().zip(attachment.as_ref());
        let (pod, wanted) = (&endpoint.pod.name, &endpoint.limits);
        let held = known.is_some_and(|(limits, one)| limits.is_held(pod, one, wanted));
        let record = known.and_then(|(limits, one)| limits.record(one));
        let both = [Direction::Ingress, Direction::Egress].into_iter();
        let wanted = both.filter_map(|way| Some((way, endpoint.limits.of(way)?)));
        wanted
            .map(|(direction, limit)| {
                let queues = record.iter().flat_map(|record| &record.queues);
                let queues = queues.filter(|queue| queue.direction == direction);
                // In the order in which packets pass them.
                let (mut link, mut counts) = (String::new(), None);
                for queue in queues {
                    link.clone_from(&queue.link.name);
                    counts = self.passed(queue.limiter, counts);
                }
                let doubt = known.and_then(|(limits, one)| limits.doubt(one));
                let doubt = doubt.filter(|_| direction == Direction::Ingress);
                let bypass = known.and_then(|(limits, one)| limits.bypass_rate(one));
                let bypass = bypass.filter(|_| direction == Direction::Ingress);
                let status = LimitStatus {
                    direction: direction.to_string(),
                    rate: limit.rate.bits_per_second(),
                    in_force: held && doubt.is_none(),
                    reason: doubt.map_or_else(String::new, |reason| reason.to_string()),
                    bypass_rate: bypass.map(BitRate::bits_per_second),
                    link,
                    counts,
                };
                (direction, status)
            })
            .collect()
    }

    /// Returns what passed a queue's limiter, and what it and the queues before dropped.
    fn passed(&self, limiter: Option<u16>, before: Option<Counts>) -> Option<Counts> {
        let limiter = self.pins.as_ref()?.limiters().get(limiter?).ok().flatten();
        let counters = limiter?.counters;
        let before = before.unwrap_or_default();
        Some(Counts {
            packets: counters.sparse_packets + counters.bulk_packets,
            bytes: counters.sparse_bytes + counters.bulk_bytes,
            marked_packets: 0,
            dropped_packets: before.dropped_packets + counters.dropped_packets,
            dropped_bytes: before.dropped_bytes + counters.dropped_bytes,
        })
    }

    fn rule(&self, rule: &ChainRule, counts: Counts) -> RuleStatus {
        let mut status = RuleStatus::of(rule);
        if let Some(meter) = self.engine.outcome.meters.get(&rule.id) {
            status.burst = Some(meter.burst.bytes());
            // In shadow mode nothing waits, and nothing is dropped.
            if rule.mode == Mode::Enforce {
                status.queue.clone_from(&meter.queue);
                status.polices = meter.queue.is_none();
            }
        }
        status.counts = counts;
        status
    }
}

impl RuleCounts {
    fn of(&self, endpoint: &EndpointId, rule: &RuleId) -> Counts {
        let place = |count: &RuleCount| (&count.endpoint, &count.rule).cmp(&(endpoint, rule));
        let found = self.0.binary_search_by(place);
        found.map_or_else(
            |_| Counts::default(),
            |place| {
                let count = &self.0[place];
                Counts {
                    packets: count.packets,
                    bytes: count.bytes,
                    marked_packets: count.marked,
                    dropped_packets: count.dropped_packets,
                    dropped_bytes: count.dropped_bytes,
                }
            },
        )
    }
}

/// A line that carries this much of what it can is full: the rest are gaps between packets.
const FULL: f64 = 0.95;

fn direction_of(direction: Direction, shares: &Shares, rate: Option<u64>) -> DirectionStatus {
    let total = (!shares.is_open()).then(|| shares.total.bits_per_second());
    let is_full = |(rate, total): (u64, u64)| rate as f64 >= total as f64 * FULL;
    DirectionStatus {
        direction: direction.to_string(),
        total,
        rate,
        full: rate.zip(total).is_some_and(is_full),
    }
}

fn counted(counted: Counted) -> Counts {
    Counts {
        packets: counted.packets,
        bytes: counted.bytes,
        dropped_packets: counted.dropped_packets,
        ..Counts::default()
    }
}

/// The word by which something is written in JSON.
fn word(value: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests;
