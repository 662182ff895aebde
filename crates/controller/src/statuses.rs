//! Writes what is said of policies, when it differs from what is there.
//!
//! What somebody waits for is written at once: what became of a new generation, and what has failed.
//! What passes by itself, as when the first pod of a policy comes to a node, is not said at all
//! unless it lasts, and counts alone are written when they have been wrong for a minute, as far as what
//! pods cost leaves room for it: pods that come within it are one write, and a pod in whose place another
//! one comes is none.
//!
//! At most so many are written in a while: what matters goes before counts, and what has waited for
//! longest goes first.
//!
//! A write that is refused since the object has changed is repeated when the watch reports the change.
//!
//! Where something else enforces policies, none of their statuses is ours: what was written before is
//! taken back, and an event says once why.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;
use kube::Client;
use kube::core::response::Status;
use netqos_cluster::{Kind, NotLeading, Undeclared, is_outdated, is_undeclared};
use netqos_core::{NodeReport, ObjectName};
use netqos_index::PeerIndex;
use tokio::time::{Instant, timeout};

use crate::agents::Agents;
use crate::budget::Budget;
use crate::contested::Contested;
use crate::events::{Events, Told};
use crate::feed::PolicyFacts;
use crate::metrics::{Metrics, Outcome};

mod due;
mod look;
mod write;

use due::{Queue, Rank};
use look::Due;
use write::Write;

const RESOURCE: &str = "networkqoses/status";
/// The version of this controller.
const OWN_VERSION: &str = netqos_version::VERSION;
/// How often statuses are looked at.
pub(crate) const EVERY: Duration = Duration::from_millis(500);
/// How long what may pass by itself is not said.
const LASTS: Duration = Duration::from_secs(10);
/// How long counts are wrong before they are written, and before it is looked again whether they may be.
const COUNTS_LAST: Duration = Duration::from_secs(60);
/// How long to wait after a write that failed.
const AGAIN: Duration = Duration::from_secs(5);
/// The time until the next attempt at a status that only a change of the object or of its CRD makes writable.
const UNWRITABLE_AGAIN: Duration = Duration::from_secs(600);
/// How many are looked at, and written, in one look, and written at the same time.
const LOOKS: usize = 1_000;
const MOST: usize = 40;
const AT_ONCE: usize = 8;
/// How long a write may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is said of all policies.
pub(crate) struct Statuses {
    client: Client,
    /// How long counts may be wrong at most.
    counts_within: Duration,
    budget: Budget,
    policies: BTreeMap<ObjectName, Policy>,
    reports: BTreeMap<Arc<str>, NodeReport>,
    /// Policies that are to be looked at.
    due: Queue,
    /// Who else enforces policies, in words: then none of their statuses is ours.
    left: Option<String>,
    /// Counts that the definition does not have, since it is another's, or an older one.
    undeclared: Undeclared,
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
    /// An event has reported that the API server accepts no status of it.
    told_unwritable: bool,
    /// The resourceVersion of which the server has a newer one.
    outdated: Option<u64>,
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
    /// `counts_within` is how long counts may be wrong at most.
    pub(crate) fn new(
        client: Client,
        counts_within: Duration,
        metrics: Metrics,
        events: Events,
    ) -> Self {
        Self {
            client,
            counts_within,
            budget: Budget::default(),
            policies: BTreeMap::new(),
            reports: BTreeMap::new(),
            due: Queue::default(),
            left: None,
            undeclared: Undeclared::among(&look::COUNTS),
            metrics,
            events,
        }
    }

    /// A pod was made.
    pub(crate) fn pod_started(&mut self) {
        self.budget.start(Instant::now());
    }

    /// So many slices were written for pods.
    pub(crate) fn slices_written(&mut self, writes: usize) {
        self.budget.spend(writes);
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
        if facts.generation != known.facts.generation || facts.uid != known.facts.uid {
            known.again = None;
            known.told_unwritable = false;
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

    /// A policy may be other than it was.
    pub(crate) fn touch(&mut self, name: ObjectName) {
        // Also one that waits for its counts: there may be more to say of it by now.
        if let Some(policy) = self.policies.get(&name) {
            let now = Instant::now();
            let at = policy.again.map_or(now, |again| again.max(now));
            self.due.touch(name, at, now);
        }
    }

    /// The agent of a node does other than it did.
    pub(crate) fn touch_node(&mut self, node: &Arc<str>) {
        let said = self.reports.get(node);
        let said = said.into_iter().flat_map(|report| report.policies.keys());
        // It may be what those wait for that are not in force somewhere.
        let is_waiting = |policy: &Policy| policy.counted.as_ref().is_none_or(|(ready, _)| !ready);
        let waiting = self.policies.iter().filter(|(_, it)| is_waiting(it));
        let waiting = waiting.map(|(name, _)| name);
        let names: BTreeSet<ObjectName> = said.chain(waiting).cloned().collect();
        names.into_iter().for_each(|name| self.touch(name));
    }

    /// How many policies there are.
    pub(crate) fn policies(&self) -> usize {
        self.policies.len()
    }

    /// How many are to be looked at, at some time.
    pub(crate) fn due(&self) -> usize {
        self.due.len()
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
    pub(crate) async fn round(&mut self, index: &PeerIndex, agents: &Agents) {
        let now = Instant::now();
        let names: Vec<ObjectName> = self.due.due(now).into_iter().take(LOOKS).collect();
        if names.is_empty() {
            return;
        }
        let (mut writes, mut counts) = (Vec::new(), Vec::new());
        for name in names {
            if writes.len() == MOST {
                break;
            }
            match self.look(&name, index, agents, now) {
                Due::Never => self.due.remove(&name),
                Due::At(at, rank) => self.due.postpone(name, at, rank),
                Due::Now(write, Rank::Matters) => writes.push(*write),
                Due::Now(write, Rank::Counts) => {
                    self.budget.spend(1);
                    self.due.wait_with_counts(&name);
                    counts.push(*write);
                }
            }
        }
        let room = MOST - writes.len();
        self.budget.give_back(counts.len().saturating_sub(room));
        writes.extend(counts.into_iter().take(room));
        self.write(writes).await;
    }

    async fn write(&mut self, writes: Vec<Write>) {
        let client = self.client.clone();
        let left_out = self.undeclared.fields().count();
        let mut written = stream::iter(writes)
            .map(|write| {
                let client = client.clone();
                async move {
                    let answer = timeout(PATIENCE, write.put(client)).await;
                    (write, answer)
                }
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
                // The next term looks at all of them.
                Ok(Err(why)) if NotLeading::caused(&why) => continue,
                // The watch reports the newer object soon, which is looked at then.
                Ok(Err(kube::Error::Api(status)))
                    if is_outdated(&status) && self.is_first_refusal(&write) =>
                {
                    let again = Instant::now() + AGAIN;
                    self.due.postpone(write.name, again, Rank::Matters);
                    continue;
                }
                // What is left out by now, and was not when this one was written.
                Ok(Err(kube::Error::Api(status)))
                    if is_undeclared(&status.message)
                        && (self.undeclared.add(&status.message)
                            || self.undeclared.fields().count() > left_out) =>
                {
                    tracing::warn!(
                        "the definition of NetworkQoS is not the one of this netqos (deploy/crds): counts \
                         that it does not have are left out of statuses ({})",
                        status.message
                    );
                    Outcome::Failed
                }
                Ok(Err(kube::Error::Api(status))) if is_unwritable(&status) => {
                    self.wait_for_change(write.name, &status.message);
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
                    self.due.postpone(write.name, again, Rank::Matters);
                    Outcome::Failed
                }
            };
            self.metrics.wrote(RESOURCE, outcome);
        }
    }

    /// Postpones a status until the object changes, and reports by an event, once, what the status would have.
    fn wait_for_change(&mut self, name: ObjectName, refusal: &str) {
        let again = Instant::now() + UNWRITABLE_AGAIN;
        if let Some(policy) = self.policies.get_mut(&name) {
            policy.again = Some(again);
            if !std::mem::replace(&mut policy.told_unwritable, true) {
                tracing::warn!(policy = %name, error = refusal, "cannot write a status");
                let invalid = policy.facts.invalid.as_deref();
                let invalid = invalid.unwrap_or("the object does not match its CRD");
                self.events.tell(Told {
                    kind: Kind::NetworkQoS,
                    object: name.clone(),
                    uid: policy.facts.uid.clone(),
                    good: false,
                    reason: "Invalid".to_owned(),
                    note: format!("{invalid}; its status stays as it is: the API server refuses it ({refusal})"),
                });
            }
        }
        self.due.postpone(name, again, Rank::Matters);
    }

    /// Returns true if the server has a newer object than the one that this was written for, and that was not found
    /// out before.
    fn is_first_refusal(&mut self, write: &Write) -> bool {
        let number = write.version.number;
        let policy = self.policies.get_mut(&write.name);
        policy.is_some_and(|policy| policy.outdated.replace(number) != Some(number))
    }
}

/// Returns true if the API server refuses a status because of the rest of the object, which an older CRD accepted.
/// An apply to an object of another shape fails in structured-merge-diff, with code 500.
fn is_unwritable(refusal: &Status) -> bool {
    refusal.code == 422
        || (refusal.code == 500
            && refusal
                .message
                .contains("failed to create typed live object"))
}
