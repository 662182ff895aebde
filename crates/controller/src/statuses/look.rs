//! What is to be done about one policy.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use netqos_cluster::Kind;
use netqos_core::ObjectName;
use netqos_index::PeerIndex;
use netqos_k8s::NetworkQosStatus;
use netqos_status::{Difference, Facts, Remark, Verdict, difference, remarks, status};
use tokio::time::Instant;

use super::due::Rank;
use super::write::{Write, Written};
use super::{COUNTS_LAST, LASTS, Policy, Statuses};
use crate::agents::Agents;
use crate::events::{Events, Told, reason_of};
use crate::metrics::Metrics;

/// Why a policy may be in force nowhere for a moment, which passes by itself.
const PASSING: [&str; 2] = ["Pending", "AgentNotReady"];
/// The reason of a policy in force that selects no pod.
const NO_PODS: &str = "NoPods";
/// What no event tells of each policy: what passes, and what somebody does to all of them.
const UNTOLD: [&str; 3] = ["Pending", "AgentNotReady", "Leaving"];
/// What of a status is counts, which another definition may not have.
pub(super) const COUNTS: [&str; 3] = ["rules", "selectedPods", "nodes"];

/// What is to be done about a policy.
pub(super) enum Due {
    Never,
    At(Instant, Rank),
    Now(Box<Write>, Rank),
}

impl Statuses {
    /// What is to be done about a policy.
    pub(super) fn look(
        &mut self,
        name: &ObjectName,
        index: &PeerIndex,
        agents: &Agents,
        now: Instant,
    ) -> Due {
        if let Some(why) = &self.left {
            let Some(policy) = self.policies.get_mut(name) else {
                return Due::Never;
            };
            return leave_alone(name, policy, why, &self.metrics, &self.events);
        }
        let Some((verdict, before, shall)) = self.find(name, index, agents) else {
            return Due::Never;
        };
        let before = before.as_ref();
        let Some(policy) = self.policies.get_mut(name) else {
            return Due::Never;
        };
        let facts = &policy.facts;
        let ready = verdict.ready();
        let counted = (ready.holds, ready.reason.clone());
        if policy.counted.as_ref() != Some(&counted) {
            if let Some((ready, reason)) = &policy.counted {
                self.metrics.policy(*ready, reason, -1);
            }
            self.metrics.policy(counted.0, &counted.1, 1);
            policy.counted = Some(counted);
        }
        let was_ready = of_ready(before);
        let difference = difference(before, &shall);
        let later = match difference {
            Difference::None => {
                policy.differs = None;
                policy.miscounts = None;
                policy.settled = true;
                return Due::Never;
            }
            Difference::Counts => {
                policy.differs = None;
                let since = *policy.miscounts.get_or_insert(now);
                let first = since + COUNTS_LAST.min(self.counts_within);
                let last = since + self.counts_within;
                match now < first {
                    _ if !policy.settled => None,
                    true => Some(first),
                    false if self.budget.affords(now) => None,
                    false => Some(last.min(now + COUNTS_LAST)),
                }
            }
            Difference::Matter => {
                // It was in force, and now a node has not said so yet, or its last pod is gone and another may come.
                let passes = PASSING.contains(&ready.reason.as_str())
                    || verdict.programmed.reason == NO_PODS;
                let may_pass = passes && was_ready == Some((true, "Ready", Some(facts.generation)));
                let since = *policy.differs.get_or_insert(now);
                may_pass.then_some(since + LASTS)
            }
        };
        if let Some(at) = later.filter(|at| *at > now) {
            return Due::At(at, rank(difference));
        }
        let news = was_ready.is_none_or(|(holds, reason, generation)| {
            (holds, reason) != (ready.holds, ready.reason.as_str())
                || (generation != Some(facts.generation))
        });
        let told = (news && !UNTOLD.contains(&ready.reason.as_str())).then(|| Told {
            kind: Kind::NetworkQoS,
            object: name.clone(),
            uid: facts.uid.clone(),
            good: ready.holds,
            reason: match ready.holds {
                true => "QoSProgrammed".to_owned(),
                false => reason_of(&ready.reason).to_owned(),
            },
            note: ready.message.clone(),
        });
        let write = Write {
            name: name.clone(),
            version: facts.version(),
            status: Some(shall),
            told,
        };
        Due::Now(Box::new(write), rank(difference))
    }

    /// What is found of a policy, what of its status is ours, and what it shall be.
    fn find(
        &self,
        name: &ObjectName,
        index: &PeerIndex,
        agents: &Agents,
    ) -> Option<(Verdict, Option<NetworkQosStatus>, NetworkQosStatus)> {
        let policy = self.policies.get(name)?;
        let facts = &policy.facts;
        let subjects = index.subjects(name).unwrap_or_default();
        let verdict = Verdict::of(&Facts {
            name,
            uid: &facts.uid,
            generation: facts.generation,
            invalid: facts.invalid.as_deref(),
            rules: facts.rules,
            subjects: &subjects,
            reports: &self.reports,
            agents: &|node| agents.of(node),
            selects: &|pod| index.selects(name, pod),
        });
        let before = facts.status.clone();
        let before = before.map(|before| policy.contested.ours(before));
        let at = Time(Timestamp::now());
        let mut shall = status(&verdict, before.as_ref(), &at);
        let lacks = |count: &str| self.undeclared.has(count);
        shall.rules = shall.rules.filter(|_| !lacks("rules"));
        shall.selected_pods = shall.selected_pods.filter(|_| !lacks("selectedPods"));
        shall.nodes = shall.nodes.filter(|_| !lacks("nodes"));
        let shall = policy.contested.ours(shall);
        Some((verdict, before, shall))
    }

    /// The policies whose status is not what it shall be: that, and what is there.
    pub(crate) fn differing(
        &self,
        index: &PeerIndex,
        agents: &Agents,
    ) -> Vec<(&ObjectName, NetworkQosStatus, Option<NetworkQosStatus>)> {
        if self.left.is_some() {
            return Vec::new();
        }
        let found = self.policies.keys().filter_map(|name| {
            let (_, before, shall) = self.find(name, index, agents)?;
            Some((name, shall, before))
        });
        found
            .filter(|(_, shall, is)| difference(is.as_ref(), shall) != Difference::None)
            .collect()
    }

    pub(super) fn wrote(&mut self, write: Write, written: Written) {
        self.due.remove(&write.name);
        let Some(policy) = self.policies.get_mut(&write.name) else {
            return;
        };
        policy.contested.add(written.contested);
        policy.facts.version = written.version.max(policy.facts.version);
        policy.differs = None;
        policy.miscounts = None;
        policy.again = None;
        policy.outdated = None;
        let Some(status) = write.status else {
            policy.facts.is_ours = false;
            return;
        };
        let status = policy.contested.ours(status);
        let before = policy.facts.status.as_ref();
        let before = before.into_iter().flat_map(remarks);
        let before: Vec<_> = before.map(|it| (it.type_, it.which)).collect();
        let is_new = |it: &Remark<'_>| !before.contains(&(it.type_, it.which));
        for remark in remarks(&status).filter(is_new) {
            self.events.tell(Told {
                kind: Kind::NetworkQoS,
                object: write.name.clone(),
                uid: policy.facts.uid.clone(),
                good: false,
                reason: remark.type_.to_owned(),
                note: remark.message.to_owned(),
            });
        }
        if let Some(told) = write.told {
            self.events.tell(told);
        }
        policy.facts.status = Some(status);
        policy.facts.is_ours = true;
        policy.settled = true;
    }
}

/// How much a difference matters.
fn rank(difference: Difference) -> Rank {
    match difference {
        Difference::Matter => Rank::Matters,
        _ => Rank::Counts,
    }
}

/// Whether a status says that it is ready, why, and of which generation.
fn of_ready(status: Option<&NetworkQosStatus>) -> Option<(bool, &str, Option<i64>)> {
    let mut conditions = status?.conditions.as_ref()?.iter();
    let ready = conditions.find(|it| it.type_ == "Ready")?;
    Some((
        ready.status == "True",
        ready.reason.as_str(),
        ready.observed_generation,
    ))
}

/// Leaves a policy to who else enforces it.
fn leave_alone(
    name: &ObjectName,
    policy: &mut Policy,
    why: &str,
    metrics: &Metrics,
    events: &Events,
) -> Due {
    if let Some((ready, reason)) = policy.counted.take() {
        metrics.policy(ready, &reason, -1);
    }
    policy.differs = None;
    if !policy.told_left {
        policy.told_left = true;
        events.tell(Told {
            kind: Kind::NetworkQoS,
            object: name.clone(),
            uid: policy.facts.uid.clone(),
            good: true,
            reason: "EnforcedElsewhere".to_owned(),
            note: why.to_owned(),
        });
    }
    match policy.facts.is_ours {
        false => Due::Never,
        true => {
            let write = Write {
                name: name.clone(),
                version: policy.facts.version(),
                status: None,
                told: None,
            };
            Due::Now(Box::new(write), Rank::Matters)
        }
    }
}
