//! The engine's answer to what it is asked.

use std::collections::HashMap;

use netqos_api::koordinator::BackendKind;
use netqos_bpf::Pins;
use netqos_classes::{Counted, Trouble};
use netqos_core::classes::TrafficClass;
use netqos_core::plan::{Attach, ChainRule, Endpoint, RuleId};
use netqos_core::{Direction, EndpointId, Mode, NodePlan};
use netqos_datapath::rules::RuleCount;

use super::Engine;
use super::limits::attachment;
use crate::status::{
    Counts, LimitStatus, LineStatus, PodStatus, ProblemStatus, RuleStatus, ShareStatus, Status,
};
use netqos_daemon::Check;

type RuleCounts = HashMap<(EndpointId, RuleId), Counts>;

impl Engine {
    pub(super) fn status(&self) -> Status {
        let mut problems = self.problems();
        let counts = match self.rules.as_ref().map(|rules| rules.counts()) {
            Some(Ok(counts)) => by_rule(counts),
            Some(Err(why)) => {
                problems.insert(netqos_core::Problem {
                    object: netqos_core::ObjectRef::Node(self.options.node.clone()),
                    reason: netqos_core::Reason::UpdateFailed,
                    message: format!("the counters of rules cannot be read: {why}"),
                });
                RuleCounts::new()
            }
            None => RuleCounts::new(),
        };
        let plan = self.index.plan();
        let pins = Pins::open(self.options.paths.bpffs()).ok().flatten();
        let pods = plan.endpoints.iter();
        let pods = pods.map(|(id, endpoint)| self.pod(id, endpoint, plan, &counts, pins.as_ref()));
        let mut objects = std::collections::BTreeMap::new();
        for (kind, many) in self.sources.values().flat_map(|(_, objects)| objects) {
            *objects.entry((*kind).to_owned()).or_default() += many;
        }
        let mut pods: Vec<PodStatus> = pods.collect();
        pods.sort_by(|a, b| {
            let key = |pod: &PodStatus| {
                let names = (pod.namespace.clone(), pod.name.clone());
                (names, pod.network.clone(), pod.interface.clone())
            };
            key(a).cmp(&key(b))
        });
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            node: self.options.node.clone(),
            checks: self.checks(),
            reconciled: self.reconciled,
            objects,
            class_backend: self.classes.backend().to_string(),
            lines: self.lines(),
            pods,
            problems: problems.iter().map(ProblemStatus::from).collect(),
        }
    }

    fn lines(&self) -> Vec<LineStatus> {
        let shown = self.classes.shown();
        let counters = self.classes.counters();
        let lines = self.classes.plan().lines.iter();
        lines
            .map(|(name, shares)| {
                let here = |it: &&Trouble| it.line.as_ref() == Some(name) && it.part.is_none();
                let troubles = shown.troubles.iter().filter(here);
                let mut failing: Vec<&str> = troubles.map(|it| it.what.as_str()).collect();
                if failing.is_empty() && !shown.lines.contains(name) {
                    let why = shown.failure.as_deref();
                    failing.push(match self.classes.backend() {
                        BackendKind::None => "nobody divides it: the class backend is none",
                        _ => why.unwrap_or("it is not divided yet"),
                    });
                }
                let ways = [Direction::Ingress, Direction::Egress].into_iter();
                let each = ways.flat_map(|way| TrafficClass::ALL.map(|class| (way, class)));
                let shares = each.map(|(direction, class)| {
                    let share = shares.of(direction).of(class);
                    ShareStatus {
                        direction: direction.to_string(),
                        class: class.to_string(),
                        min: share.min.bits_per_second(),
                        max: share.max.bits_per_second(),
                        counts: counters.of(name, direction, class).map(counted),
                    }
                });
                LineStatus {
                    name: name.to_string(),
                    failing: failing.join("; "),
                    shares: shares.collect(),
                }
            })
            .collect()
    }

    fn checks(&self) -> Vec<Check> {
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
            self.synced && self.classes.has_begun(),
            "the plan was not put in force yet",
        ));
        for (name, what) in [("rules", "rules"), ("limits", "limits")] {
            let problem = self.node_problems.get(what);
            let message = problem.map_or("", |problem| problem.message.as_str());
            checks.push(check(name, problem.is_none(), message));
        }
        checks
    }

    fn pod(
        &self,
        id: &EndpointId,
        endpoint: &Endpoint,
        plan: &NodePlan,
        counts: &RuleCounts,
        pins: Option<&Pins>,
    ) -> PodStatus {
        let in_force = self.outcome.endpoints.get(id);
        let chain = endpoint.chain.and_then(|chain| plan.chains.get(&chain));
        let rules = chain.into_iter().flat_map(|chain| &chain.rules);
        let limits = self.limits_of(endpoint, pins);
        let mut failing = Vec::new();
        if let Attach::Unsupported { reason } = &endpoint.attach {
            failing.push(reason.clone());
        } else {
            if chain.is_some() && in_force.is_none() {
                failing.push("rules are not in force".to_owned());
            }
            if limits.iter().any(|limit| !limit.in_force) {
                failing.push("limits are not in force".to_owned());
            }
        }
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
            failing: failing.join("; "),
            limits,
            rules: rules
                .map(|rule| {
                    let key = (id.clone(), rule.id.clone());
                    self.rule(rule, counts.get(&key).copied().unwrap_or_default())
                })
                .collect(),
        }
    }

    fn limits_of(&self, endpoint: &Endpoint, pins: Option<&Pins>) -> Vec<LimitStatus> {
        let attachment = endpoint.attach.interface().and_then(attachment);
        let known = self.limits.as_ref().zip(attachment.as_ref());
        let held = known.is_some_and(|(limits, one)| limits.is_held(&endpoint.pod.name, one));
        let record = known.and_then(|(limits, one)| limits.record(one));
        let both = [Direction::Ingress, Direction::Egress].into_iter();
        let wanted = both.filter_map(|way| Some((way, endpoint.limits.of(way)?)));
        wanted
            .map(|(direction, limit)| {
                let queues = record.iter().flat_map(|record| &record.queues);
                let limiter = queues
                    .filter(|queue| queue.direction == direction)
                    .find_map(|queue| queue.limiter);
                let limiter = limiter
                    .zip(pins)
                    .and_then(|(id, pins)| pins.limiters().get(id).ok().flatten());
                LimitStatus {
                    direction: direction.to_string(),
                    rate: limit.rate.bits_per_second(),
                    in_force: held,
                    counts: limiter.map(|limiter| {
                        let counters = limiter.counters;
                        Counts {
                            packets: counters.sparse_packets + counters.bulk_packets,
                            bytes: counters.sparse_bytes + counters.bulk_bytes,
                            marked_packets: 0,
                            dropped_packets: counters.dropped_packets,
                            dropped_bytes: counters.dropped_bytes,
                        }
                    }),
                }
            })
            .collect()
    }

    fn rule(&self, rule: &ChainRule, counts: Counts) -> RuleStatus {
        let mut status = RuleStatus::of(rule);
        if let Some(meter) = self.outcome.meters.get(&rule.id) {
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

fn counted(counted: Counted) -> Counts {
    Counts {
        packets: counted.packets,
        bytes: counted.bytes,
        dropped_packets: counted.dropped_packets,
        ..Counts::default()
    }
}

fn by_rule(counts: Vec<RuleCount>) -> RuleCounts {
    let entry = |count: RuleCount| {
        let counts = Counts {
            packets: count.packets,
            bytes: count.bytes,
            marked_packets: count.marked,
            dropped_packets: count.dropped_packets,
            dropped_bytes: count.dropped_bytes,
        };
        ((count.endpoint, count.rule), counts)
    };
    counts.into_iter().map(entry).collect()
}

/// The word by which something is written in JSON.
fn word(value: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}
