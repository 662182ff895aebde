//! Writes what is said of policies, when it differs from what is there.
//!
//! What somebody waits for is written at once: what became of a new generation, and what has failed.
//! What passes by itself, as when the first pod of a policy comes to a node, is not said at all
//! unless it lasts, and counts alone are written once a minute.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use netqos_cluster::{Kind, Raw};
use netqos_core::{NodeReport, ObjectName};
use netqos_index::PeerIndex;
use netqos_k8s::NetworkQosStatus;
use netqos_status::{Difference, Facts, Verdict, difference, status};
use serde_json::json;
use tokio::time::{Instant, timeout};

use crate::events::{Events, Told};
use crate::feed::PolicyFacts;
use crate::metrics::{Metrics, Outcome};

/// Who writes the status.
pub(crate) const MANAGER: &str = "netqos-controller";
/// How often statuses are looked at.
pub(crate) const EVERY: Duration = Duration::from_millis(500);
/// How long what may pass by itself is not said.
const LASTS: Duration = Duration::from_secs(10);
/// How often counts are written.
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
    /// Policies that are to be looked at, and since when it may be said what passes by itself.
    due: HashMap<ObjectName, Instant>,
    metrics: Metrics,
    events: Events,
}

#[derive(Debug, Default)]
struct Policy {
    facts: PolicyFacts,
    /// When its status was written last.
    written: Option<Instant>,
    /// Since when it has been different in what may pass by itself.
    differs: Option<Instant>,
    /// What the metrics say of it.
    counted: Option<(bool, String)>,
}

/// A status that is to be written.
struct Write {
    name: ObjectName,
    status: NetworkQosStatus,
    told: Option<Told>,
}

impl Statuses {
    pub(crate) fn new(client: Client, zones: bool, metrics: Metrics, events: Events) -> Self {
        Self {
            client,
            zones,
            policies: BTreeMap::new(),
            reports: BTreeMap::new(),
            due: HashMap::new(),
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
        // What we wrote ourselves may be known already.
        if facts.version >= known.facts.version || facts.uid != known.facts.uid {
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
            Some(report) => self.reports.insert(node, report),
            None => self.reports.remove(&node),
        };
        let mut concerned: BTreeSet<ObjectName> = BTreeSet::new();
        let problems = |it: &Option<NodeReport>| it.as_ref().map(|it| it.problems.clone());
        let same_problems = problems(&before) == problems(&report);
        for (one, other) in [(&before, &report), (&report, &before)] {
            let policies = one.iter().flat_map(|it| &it.policies);
            let differing = policies.filter(|(name, generation)| {
                let other = other.as_ref().and_then(|it| it.policies.get(*name));
                !same_problems || other != Some(*generation)
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

    /// The nodes that have said something.
    pub(crate) fn reporting(&self) -> impl Iterator<Item = &Arc<str>> {
        self.reports.keys()
    }

    /// A policy may be other than it was.
    pub(crate) fn touch(&mut self, name: ObjectName) {
        if self.policies.contains_key(&name) {
            self.due.entry(name).or_insert_with(Instant::now);
        }
    }

    /// All policies may be.
    pub(crate) fn touch_all(&mut self) {
        let names: Vec<ObjectName> = self.policies.keys().cloned().collect();
        names.into_iter().for_each(|name| self.touch(name));
    }

    /// Writes what is due. To be called by the leader alone, once all is known.
    pub(crate) async fn round(&mut self, index: &PeerIndex) {
        let now = Instant::now();
        let due = self.due.iter().filter(|(_, at)| **at <= now);
        let names: Vec<ObjectName> = due.map(|(name, _)| name.clone()).take(MOST).collect();
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
        let client = self.client.clone();
        let mut written = stream::iter(writes)
            .map(|write| {
                let client = client.clone();
                async move {
                    let answer = timeout(PATIENCE, put(client, &write)).await;
                    (write, answer)
                }
            })
            .buffer_unordered(AT_ONCE);
        while let Some((write, answer)) = written.next().await {
            let outcome = match answer {
                Ok(Ok(version)) => {
                    self.wrote(write, version);
                    Outcome::Done
                }
                // It is gone, which the watch will tell.
                Ok(Err(kube::Error::Api(status))) if status.code == 404 => {
                    self.due.remove(&write.name);
                    Outcome::Done
                }
                failed => {
                    let why = match failed {
                        Ok(Err(why)) => netqos_core::with_causes(&why),
                        _ => format!("no answer in {} s", PATIENCE.as_secs()),
                    };
                    tracing::warn!("the status of {} could not be written: {why}", write.name);
                    self.due.insert(write.name, Instant::now() + AGAIN);
                    Outcome::Failed
                }
            };
            self.metrics.wrote("networkqoses/status", outcome);
        }
    }

    /// What is to be done about a policy.
    fn look(&mut self, name: &ObjectName, index: &PeerIndex, now: Instant) -> Due {
        let Some(policy) = self.policies.get_mut(name) else {
            return Due::Never;
        };
        let facts = &policy.facts;
        let subjects = index.subjects(name).unwrap_or_default();
        let verdict = Verdict::of(&Facts {
            name,
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
        let before = facts.status.as_ref();
        let at = Time(Timestamp::now());
        let shall = status(&verdict, before, &at, self.zones);
        let was_ready = of_ready(before);
        let later = match difference(before, &shall) {
            Difference::None => {
                policy.differs = None;
                return Due::Never;
            }
            Difference::Counts => {
                policy.differs = None;
                policy.written.map(|written| written + COUNTS)
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
            status: shall,
            told,
        }))
    }

    fn wrote(&mut self, write: Write, version: u64) {
        self.due.remove(&write.name);
        let Some(policy) = self.policies.get_mut(&write.name) else {
            return;
        };
        let remark = conflict(&write.status).filter(|_| {
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
        policy.facts.status = Some(write.status);
        policy.facts.version = version.max(policy.facts.version);
        policy.written = Some(Instant::now());
        policy.differs = None;
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

/// Applies a status; conditions of others stay. Gives back the object's version.
async fn put(client: Client, write: &Write) -> Result<u64, kube::Error> {
    let ObjectName { namespace, name } = &write.name;
    // As it comes: one whose spec cannot be read has a status all the same.
    let api: Api<Raw> = Api::namespaced_with(client, namespace, &Kind::NetworkQoS);
    let body = json!({
        "apiVersion": "k8s.ovn.org/v1alpha1",
        "kind": "NetworkQoS",
        "metadata": {"name": &**name, "namespace": &**namespace},
        "status": write.status,
    });
    let parameters = PatchParams::apply(MANAGER).force();
    let written = api
        .patch_status(name, &parameters, &Patch::Apply(&body))
        .await?;
    let version = written.resource_version();
    Ok(version.and_then(|it| it.parse().ok()).unwrap_or_default())
}
