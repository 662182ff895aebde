//! Writes what is said of policies, when it differs from what is there.
//!
//! What somebody waits for is written at once: what became of a new generation, and what has failed.
//! What passes by itself, as when the first pod of a policy comes to a node, is not said at all
//! unless it lasts, and counts alone are written when they have been wrong for a minute: pods that come
//! within it are one write, and a pod in whose place another one comes is none.
//!
//! Where something else enforces policies, none of their statuses is ours: what was written before is
//! taken back, and an event says once why.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use netqos_cluster::{Kind, is_undeclared};
use netqos_core::{NodeReport, ObjectName};
use netqos_index::PeerIndex;
use netqos_k8s::NetworkQosStatus;
use netqos_status::{Difference, Facts, Verdict, difference, status};
use tokio::time::{Instant, timeout};
use tracing::{Instrument as _, Span};

use crate::contested::Contested;
use crate::events::{Events, Told};
use crate::feed::PolicyFacts;
use crate::metrics::{Metrics, Outcome};
use crate::spans;

mod write;

use write::{Write, Written};

const RESOURCE: &str = "networkqoses/status";
/// The version of this controller.
const OWN_VERSION: &str = env!("CARGO_PKG_VERSION");
/// How often statuses are looked at.
pub(crate) const EVERY: Duration = Duration::from_millis(500);
/// How long what may pass by itself is not said.
const LASTS: Duration = Duration::from_secs(10);
/// How long counts are wrong before they are written.
const COUNTS: Duration = Duration::from_secs(60);
/// How long to wait after a write that failed.
const AGAIN: Duration = Duration::from_secs(5);
/// How many are written in one look, and at the same time.
const MOST: usize = 40;
const AT_ONCE: usize = 8;
/// How long a write may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is said of all policies.
pub(crate) struct Statuses {
    client: Client,
    zones: bool,
    policies: BTreeMap<ObjectName, Policy>,
    reports: BTreeMap<Arc<str>, NodeReport>,
    /// Policies that are to be looked at, and when.
    due: HashMap<ObjectName, Instant>,
    /// Who else enforces policies, in words: then none of their statuses is ours.
    left: Option<String>,
    /// The definition is another's, which has no counts.
    without_counts: bool,
    metrics: Metrics,
    events: Events,
}

#[derive(Debug, Default)]
struct Policy {
    facts: PolicyFacts,
    /// Its status was right once since we lead: what is different in it is new.
    settled: bool,
    /// Since when its counts have been wrong, and nothing else of it.
    miscounts: Option<Instant>,
    /// Not to be written before, since that has failed.
    again: Option<Instant>,
    /// Since when it has been different in what may pass by itself.
    differs: Option<Instant>,
    /// What the metrics say of it.
    counted: Option<(bool, String)>,
    /// What of its status is somebody else's.
    contested: Contested,
    /// It was said that it is left to others.
    told_left: bool,
}

impl Statuses {
    pub(crate) fn new(client: Client, zones: bool, metrics: Metrics, events: Events) -> Self {
        Self {
            client,
            zones,
            policies: BTreeMap::new(),
            reports: BTreeMap::new(),
            due: HashMap::new(),
            left: None,
            without_counts: false,
            metrics,
            events,
        }
    }

    /// A policy is there, or is gone.
    pub(crate) fn policy(&mut self, name: ObjectName, facts: Option<PolicyFacts>) {
        let Some(facts) = facts else {
            let known = self.policies.remove(&name);
            if let Some((ready, reason)) = known.and_then(|known| known.counted) {
                self.metrics.policy(ready, &reason, -1);
            }
            self.due.remove(&name);
            return;
        };
        let known = self.policies.entry(name.clone()).or_default();
        if facts.uid != known.facts.uid {
            known.told_left = false;
        }
        // What we wrote ourselves may be known already.
        if facts.version >= known.facts.version || facts.uid != known.facts.uid {
            known.contested.forget_gone(facts.status.as_ref());
            known.facts = facts;
            self.touch(name);
        }
    }

    /// A node has said something, or says nothing any more. Gives back what is new of what is not as
    /// it should be on it; what is told when we come may have been so for long.
    pub(crate) fn report(
        &mut self,
        node: Arc<str>,
        report: Option<NodeReport>,
        we_come: bool,
    ) -> Vec<netqos_core::ReportedProblem> {
        let before = match report.clone() {
            Some(report) => self.reports.insert(node.clone(), report),
            None => self.reports.remove(&node),
        };
        self.count_agent(&node, before.as_ref(), report.as_ref());
        let mut concerned: BTreeSet<ObjectName> = BTreeSet::new();
        let problems = |it: &Option<NodeReport>| it.as_ref().map(|it| it.problems.clone());
        let same_problems = problems(&before) == problems(&report);
        for (one, other) in [(&before, &report), (&report, &before)] {
            let policies = one.iter().flat_map(|it| &it.policies);
            let differing = policies.filter(|(name, version)| {
                let other = other.as_ref().and_then(|it| it.policies.get(*name));
                !same_problems || other != Some(*version)
            });
            concerned.extend(differing.map(|(name, _)| name.clone()));
        }
        concerned.into_iter().for_each(|name| self.touch(name));
        if before.is_none() && we_come {
            return Vec::new();
        }
        let known = before.map_or_else(Vec::new, |before| before.problems);
        let now = report.map_or_else(Vec::new, |report| report.problems);
        let new = now.into_iter().filter(|it| !known.contains(it));
        new.collect()
    }

    /// Says which versions agents have, and of the first of another one than ours.
    fn count_agent(&self, node: &str, before: Option<&NodeReport>, now: Option<&NodeReport>) {
        let version = |it: Option<&NodeReport>| it.map(|it| it.agent.clone());
        let (before, now) = (version(before), version(now));
        if before == now {
            return;
        }
        if let Some(before) = &before {
            self.metrics.agent(before, -1);
        }
        let Some(now) = &now else {
            return;
        };
        let mut known = self.reports.iter().filter(|(it, _)| &***it != node);
        if now != OWN_VERSION && !known.any(|(_, it)| it.agent == *now) {
            tracing::warn!(
                "the agent of {node} is of version {now}, and this is {OWN_VERSION}: that works \
                 (docs/operate.md), and is not meant to last"
            );
        }
        self.metrics.agent(now, 1);
    }

    /// True when a status is written as OVN-Kubernetes does.
    pub(crate) fn are_of_ovn(&self) -> bool {
        self.policies.values().any(|policy| policy.facts.is_of_ovn)
    }

    /// Says who else enforces policies, if anybody does.
    pub(crate) fn leave(&mut self, left: Option<String>) {
        if left == self.left {
            return;
        }
        match &left {
            Some(why) => tracing::warn!("{why}"),
            None => tracing::info!("nobody else enforces NetworkQoS any more"),
        }
        self.left = left;
        for policy in self.policies.values_mut() {
            policy.told_left = false;
        }
        self.touch_all();
    }

    /// The nodes that have said something.
    pub(crate) fn reporting(&self) -> impl Iterator<Item = &Arc<str>> {
        self.reports.keys()
    }

    /// A policy may be other than it was.
    pub(crate) fn touch(&mut self, name: ObjectName) {
        // Also one that waits for its counts: there may be more to say of it by now.
        if let Some(policy) = self.policies.get(&name) {
            let now = Instant::now();
            self.due
                .insert(name, policy.again.map_or(now, |again| again.max(now)));
        }
    }

    /// All policies may be.
    pub(crate) fn touch_all(&mut self) {
        let names: Vec<ObjectName> = self.policies.keys().cloned().collect();
        names.into_iter().for_each(|name| self.touch(name));
    }

    /// Somebody else writes from now on: what the metrics have said of policies is not said any more.
    pub(crate) fn resign(&mut self) {
        for policy in self.policies.values_mut() {
            policy.counted = None;
            policy.settled = false;
            policy.miscounts = None;
        }
    }

    /// Writes what is due. To be called by the leader alone, once all is known.
    pub(crate) async fn round(&mut self, index: &PeerIndex) {
        let now = Instant::now();
        let due = self.due.iter().filter(|(_, at)| **at <= now);
        let names: Vec<ObjectName> = due.map(|(name, _)| name.clone()).take(MOST).collect();
        if names.is_empty() {
            return;
        }
        let span = spans::statuses(names.len());
        let mut writes = Vec::new();
        for name in names {
            match self.look(&name, index, now) {
                Due::Never => {
                    self.due.remove(&name);
                }
                Due::At(at) => {
                    self.due.insert(name, at);
                }
                Due::Now(write) => writes.push(*write),
            }
        }
        span.record("netqos.writes", spans::many(writes.len()));
        self.write(writes).instrument(span).await;
    }

    async fn write(&mut self, writes: Vec<Write>) {
        let client = self.client.clone();
        let mut written = stream::iter(writes)
            .map(|write| {
                let client = client.clone();
                let span = spans::write(RESOURCE, &write.name);
                let written = async move {
                    let answer = timeout(PATIENCE, write.put(client)).await;
                    match &answer {
                        Ok(Ok(_)) => {}
                        Ok(Err(why)) => spans::failed(&Span::current(), why),
                        Err(why) => spans::failed(&Span::current(), why),
                    }
                    (write, answer)
                };
                written.instrument(span)
            })
            .buffer_unordered(AT_ONCE);
        while let Some((write, answer)) = written.next().await {
            let outcome = match answer {
                Ok(Ok(written)) => {
                    self.wrote(write, written);
                    Outcome::Done
                }
                // It is gone, which the watch will tell.
                Ok(Err(kube::Error::Api(status))) if status.code == 404 => {
                    self.due.remove(&write.name);
                    Outcome::Done
                }
                Ok(Err(kube::Error::Api(status))) if is_undeclared(&status.message) => {
                    tracing::warn!(
                        "the definition of NetworkQoS is not the one of netqos (deploy/crds): how many \
                         pods and nodes there are is left out of statuses ({})",
                        status.message
                    );
                    self.without_counts = true;
                    Outcome::Failed
                }
                failed => {
                    let why = match failed {
                        Ok(Err(why)) => netqos_core::with_causes(&why),
                        _ => format!("no answer in {} s", PATIENCE.as_secs()),
                    };
                    tracing::warn!("the status of {} could not be written: {why}", write.name);
                    let again = Instant::now() + AGAIN;
                    if let Some(policy) = self.policies.get_mut(&write.name) {
                        policy.again = Some(again);
                    }
                    self.due.insert(write.name, again);
                    Outcome::Failed
                }
            };
            self.metrics.wrote(RESOURCE, outcome);
        }
    }

    /// What is to be done about a policy.
    fn look(&mut self, name: &ObjectName, index: &PeerIndex, now: Instant) -> Due {
        let Some(policy) = self.policies.get_mut(name) else {
            return Due::Never;
        };
        if let Some(why) = &self.left {
            return leave_alone(name, policy, why, &self.metrics, &self.events);
        }
        let facts = &policy.facts;
        let subjects = index.subjects(name).unwrap_or_default();
        let verdict = Verdict::of(&Facts {
            name,
            uid: &facts.uid,
            generation: facts.generation,
            invalid: facts.invalid.as_deref(),
            subjects: &subjects,
            reports: &self.reports,
            selects: &|pod| index.selects(name, pod),
        });
        let ready = verdict.ready();
        let counted = (ready.holds, ready.reason.clone());
        if policy.counted.as_ref() != Some(&counted) {
            if let Some((ready, reason)) = &policy.counted {
                self.metrics.policy(*ready, reason, -1);
            }
            self.metrics.policy(counted.0, &counted.1, 1);
            policy.counted = Some(counted);
        }
        let before = facts.status.clone();
        let before = before.map(|before| policy.contested.ours(before));
        let before = before.as_ref();
        let at = Time(Timestamp::now());
        let mut shall = status(&verdict, before, &at, self.zones);
        if self.without_counts {
            (shall.selected_pods, shall.nodes) = (None, None);
        }
        let shall = policy.contested.ours(shall);
        let was_ready = of_ready(before);
        let later = match difference(before, &shall) {
            Difference::None => {
                policy.differs = None;
                policy.miscounts = None;
                policy.settled = true;
                return Due::Never;
            }
            Difference::Counts => {
                policy.differs = None;
                let since = *policy.miscounts.get_or_insert(now);
                policy.settled.then_some(since + COUNTS)
            }
            Difference::Matter => {
                // It was in force, and now a node has not said so yet.
                let may_pass = ready.reason == "Pending"
                    && was_ready == Some((true, "Ready", Some(facts.generation)));
                let since = *policy.differs.get_or_insert(now);
                may_pass.then_some(since + LASTS)
            }
        };
        if let Some(at) = later.filter(|at| *at > now) {
            return Due::At(at);
        }
        let news = was_ready.is_none_or(|(holds, reason, generation)| {
            (holds, reason) != (ready.holds, ready.reason.as_str())
                || (generation != Some(facts.generation))
        });
        let told = (news && ready.reason != "Pending").then(|| Told {
            kind: Kind::NetworkQoS,
            object: name.clone(),
            uid: facts.uid.clone(),
            good: ready.holds,
            reason: match (ready.holds, ready.reason.as_str()) {
                (true, _) => "QoSProgrammed".to_owned(),
                // Those that have a name of their own.
                (_, "KernelFeatureMissing" | "QuotaExceeded" | "Invalid" | "NetworkNotFound") => {
                    ready.reason.clone()
                }
                _ => "QoSUpdateFailed".to_owned(),
            },
            note: ready.message.clone(),
        });
        Due::Now(Box::new(Write {
            name: name.clone(),
            status: Some(shall),
            told,
        }))
    }

    fn wrote(&mut self, write: Write, written: Written) {
        self.due.remove(&write.name);
        let Some(policy) = self.policies.get_mut(&write.name) else {
            return;
        };
        policy.contested.add(written.contested);
        policy.facts.version = written.version.max(policy.facts.version);
        policy.differs = None;
        policy.miscounts = None;
        policy.again = None;
        let Some(status) = write.status else {
            policy.facts.is_ours = false;
            return;
        };
        let status = policy.contested.ours(status);
        let remark = conflict(&status).filter(|_| {
            let before = policy.facts.status.as_ref();
            before.is_none_or(|before| conflict(before).is_none())
        });
        if let Some(note) = remark {
            self.events.tell(Told {
                kind: Kind::NetworkQoS,
                object: write.name.clone(),
                uid: policy.facts.uid.clone(),
                good: false,
                reason: "Conflict".to_owned(),
                note: note.to_owned(),
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

/// What is to be done about a policy.
enum Due {
    Never,
    At(Instant),
    Now(Box<Write>),
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

/// With whom it is in conflict, as its status says.
fn conflict(status: &NetworkQosStatus) -> Option<&str> {
    let mut conditions = status.conditions.as_ref()?.iter();
    let conflict = conditions.find(|it| it.type_ == "Conflict" && it.status == "True")?;
    Some(&conflict.message)
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
        true => Due::Now(Box::new(Write {
            name: name.clone(),
            status: None,
            told: None,
        })),
    }
}
