//! What is found of one policy.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use netqos_core::{
    LISTED_NAMES, NetworkRef, NodeReport, ObjectName, Reason, ReportedProblem, list_names,
};
use netqos_index::Subjects;

/// What is known of a policy.
pub struct Facts<'f> {
    /// Its name.
    pub name: &'f ObjectName,
    /// Its `metadata.uid`.
    pub uid: &'f str,
    /// Its `metadata.generation`.
    pub generation: i64,
    /// What is wrong with it, in words that name the fields: then nothing of it is in force.
    pub invalid: Option<&'f str>,
    /// How many rules it has, where it can be read.
    pub rules: Option<usize>,
    /// Whose traffic it is for.
    pub subjects: &'f Subjects,
    /// What each node has said last.
    pub reports: &'f BTreeMap<Arc<str>, NodeReport>,
    /// How the agent of a node does.
    pub agents: &'f dyn Fn(&str) -> Agent<'f>,
    /// True when it selects a pod.
    pub selects: &'f dyn Fn(&ObjectName) -> bool,
}

/// How the agent of a node does, as far as its pod tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agent<'a> {
    /// It works, or nothing is known of it: one that is no pod has nobody who tells.
    Works,
    /// It does not. What it has put in force stays in force, and nothing new comes into force: these pods
    /// have come to the node since.
    NotReady(&'a BTreeSet<ObjectName>),
    /// Everything is taken away there.
    Leaves,
}

/// A statement about a policy, which holds or does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Whether it holds.
    pub holds: bool,
    /// Why, in CamelCase; stable.
    pub reason: String,
    /// Why, for people.
    pub message: String,
}

/// A node that pods of a policy are on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    /// Its name.
    pub node: Arc<str>,
    /// What is there; `None`: it has not said anything of this generation yet.
    pub in_force: Option<Finding>,
}

/// All that is found of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The generation of which it is found.
    pub generation: i64,
    /// Whether the object is one that can be put in force.
    pub accepted: Finding,
    /// Whether it is in force on all nodes that it is for.
    pub programmed: Finding,
    /// Conditions beside those, where there is something to remark. By type.
    pub remarks: BTreeMap<String, Finding>,
    /// What is found on each node.
    pub zones: Vec<Zone>,
    /// How many pods it selects.
    pub pods: usize,
    /// How many rules it has, where it can be read.
    pub rules: Option<usize>,
}

/// Problems of a policy that take nothing from it, or not all: what is in force is less than it asks for.
const IN_FORCE: [Reason; 4] = [
    Reason::Conflict,
    Reason::BurstRaised,
    Reason::LinkLimitReached,
    Reason::KernelFeatureMissing,
];
/// Why a policy is not in force where the agent does not work.
const NOT_READY: &str = "AgentNotReady";
/// The most characters of the text of a policy.
const TEXT: usize = 120;
/// Problems of a pod that are about its own limits.
const OF_LIMITS: [Reason; 3] = [
    Reason::InvalidBandwidth,
    Reason::IngressBypassed,
    Reason::IngressNotVerified,
];

impl Verdict {
    /// What follows from the facts.
    pub fn of(facts: &Facts<'_>) -> Self {
        let accepted = accepted(facts);
        let zones: Vec<Zone> = match accepted.holds {
            true => facts.subjects.nodes.iter().map(|node| zone(facts, node)),
            false => return Self::refused(facts, accepted),
        }
        .collect();
        Self {
            generation: facts.generation,
            accepted,
            programmed: programmed(facts, &zones),
            remarks: remarks::of(facts),
            zones,
            pods: facts.subjects.pods,
            rules: facts.rules,
        }
    }

    fn refused(facts: &Facts<'_>, accepted: Finding) -> Self {
        Self {
            generation: facts.generation,
            programmed: no("NotAccepted", {
                // What could be read before is kept by agents until this can be read, or is gone.
                let what = match facts.invalid {
                    Some(_) => "nothing of this generation is in force",
                    None => "nothing of it is in force",
                };
                format!("{what}: {}", accepted.message)
            }),
            accepted,
            remarks: BTreeMap::new(),
            zones: Vec::new(),
            pods: facts.subjects.pods,
            rules: facts.rules,
        }
    }

    /// Whether it is accepted and in force: the first of the two that does not hold, or that it does.
    pub fn ready(&self) -> Finding {
        if !self.accepted.holds {
            return self.accepted.clone();
        }
        if !self.programmed.holds {
            return self.programmed.clone();
        }
        yes("Ready", self.programmed.message.clone())
    }

    /// On how many of its nodes it is in force: `2/3`.
    pub fn nodes(&self) -> String {
        format!("{}/{}", in_force(&self.zones), self.zones.len())
    }

    /// In a few words, as OVN-Kubernetes says it where it is in force or has failed.
    pub fn text(&self) -> String {
        let ready = self.ready();
        let mut text = match (ready.holds, ready.reason.as_str()) {
            (true, _) => "NetworkQoS Destinations applied".to_owned(),
            (false, "Pending" | NOT_READY) => {
                format!("NetworkQoS Destinations being applied: {}", ready.message)
            }
            (false, _) => format!(
                "NetworkQoS Destinations not correctly applied: {}",
                ready.message
            ),
        };
        // It is a column of `kubectl get`; the condition Ready has the whole message.
        if text.chars().count() > TEXT {
            text = text.chars().take(TEXT - 1).chain(['…']).collect();
        }
        text
    }
}

fn yes(reason: &str, message: String) -> Finding {
    Finding {
        holds: true,
        reason: reason.to_owned(),
        message,
    }
}

fn no(reason: &str, message: String) -> Finding {
    Finding {
        holds: false,
        ..yes(reason, message)
    }
}

fn accepted(facts: &Facts<'_>) -> Finding {
    if let Some(why) = facts.invalid {
        return no("Invalid", why.to_owned());
    }
    let excesses = &facts.subjects.excesses;
    if !excesses.is_empty() {
        let told: Vec<String> = excesses.iter().map(ToString::to_string).collect();
        return no("QuotaExceeded", told.join("; "));
    }
    yes("Accepted", String::new())
}

fn zone(facts: &Facts<'_>, node: &Arc<str>) -> Zone {
    let report = facts.reports.get(node).filter(|report| {
        let version = report.policies.get(facts.name);
        version.is_some_and(|version| version.covers(facts.uid, facts.generation))
    });
    let in_force = match ((facts.agents)(node), report) {
        // Whatever was said before.
        (Agent::Leaves, _) => Some(no(
            "Leaving",
            "netqos leaves the node: nothing is in force there".to_owned(),
        )),
        (Agent::Works, None) => nothing(facts, node),
        (Agent::NotReady(_), None) => Some(no(
            NOT_READY,
            format!(
                "its agent is not ready, and puts generation {} in force when it is",
                facts.generation
            ),
        )),
        (Agent::Works, Some(report)) => Some(reported(facts, report)),
        (Agent::NotReady(late), Some(report)) => {
            let said = reported(facts, report);
            Some(waiting(facts, late).filter(|_| said.holds).unwrap_or(said))
        }
    };
    Zone {
        node: node.clone(),
        in_force,
    }
}

/// A node on which no rule of any policy can be put in force says which policies are: none.
fn nothing(facts: &Facts<'_>, node: &Arc<str>) -> Option<Finding> {
    let report = facts
        .reports
        .get(node)
        .filter(|it| it.policies.is_empty())?;
    let mut problems = report.problems.iter();
    let lacks = problems.find(|it| remarks::is_of_kernel(it) && it.kind == "Node")?;
    Some(no(&lacks.reason, told(facts, lacks)))
}

/// What follows from what a node said of this generation.
fn reported(facts: &Facts<'_>, report: &NodeReport) -> Finding {
    let mut problems = report.problems.iter();
    match problems.find(|problem| keeps_out(facts, problem)) {
        Some(problem) => no(&problem.reason, told(facts, problem)),
        // One of those may be of this policy.
        None if report.more_problems > 0 => no(
            "TooManyProblems",
            format!(
                "its report names the first {} problems of it, and there are {} more",
                report.problems.len(),
                report.more_problems
            ),
        ),
        None => yes("Programmed", String::new()),
    }
}

/// What is not in force of it on a node whose agent does not work, where these pods have come since.
fn waiting(facts: &Facts<'_>, late: &BTreeSet<ObjectName>) -> Option<Finding> {
    let selects = |pod: &&ObjectName| pod.namespace == facts.name.namespace && (facts.selects)(pod);
    let mut late = late.iter().filter(selects);
    let (first, others) = (late.next()?, late.count());
    Some(no(
        NOT_READY,
        format!(
            "its agent is not ready, and has not seen Pod {first}{}, which came since",
            and_others(others)
        ),
    ))
}

/// True when a problem of a node keeps the policy, or one of its pods, from what it asks for.
fn keeps_out(facts: &Facts<'_>, problem: &ReportedProblem) -> bool {
    let is_one = |reasons: &[Reason]| reasons.iter().any(|it| it.to_string() == problem.reason);
    if is_one(&OF_LIMITS) {
        return false;
    }
    match problem.kind.as_str() {
        "NetworkQoS" => problem.object == *facts.name && !is_one(&IN_FORCE),
        // An agent that leaves policies to others, where the controller does not.
        "Node" => problem.reason == Reason::NetworkQosElsewhere.to_string(),
        "Pod" => {
            problem.object.namespace == facts.name.namespace && (facts.selects)(&problem.object)
        }
        _ => false,
    }
}

/// The words of a problem, with what it is about where that is not the policy.
fn told(facts: &Facts<'_>, problem: &ReportedProblem) -> String {
    match problem.object == *facts.name && problem.kind == "NetworkQoS" {
        true => problem.message.clone(),
        false => format!("{} {}: {}", problem.kind, problem.object, problem.message),
    }
}

fn in_force(zones: &[Zone]) -> usize {
    let holds = |zone: &&Zone| zone.in_force.as_ref().is_some_and(|finding| finding.holds);
    zones.iter().filter(holds).count()
}

fn programmed(facts: &Facts<'_>, zones: &[Zone]) -> Finding {
    let Facts {
        subjects,
        generation,
        reports,
        ..
    } = facts;
    if !subjects.missing.is_empty() {
        let missing: Vec<String> = subjects.missing.iter().map(network).collect();
        return no(
            "NetworkNotFound",
            format!(
                "there is no {}; it is not in force there",
                missing.join(", ")
            ),
        );
    }
    if zones.is_empty() {
        return yes("NoPods", "it selects no pod that is on a node".to_owned());
    }
    let counted = format!(
        "in force on {} of {}",
        in_force(zones),
        many(zones.len(), "node")
    );
    let failed: Vec<(&Zone, &Finding)> = zones
        .iter()
        .filter_map(|zone| Some((zone, zone.in_force.as_ref()?)))
        .filter(|(_, finding)| !finding.holds)
        .collect();
    if let [(zone, finding), others @ ..] = &failed[..] {
        let also = also(others.iter().map(|(zone, _)| &zone.node));
        return no(
            &finding.reason,
            format!("{counted}; {}: {}{also}", zone.node, finding.message),
        );
    }
    let waiting: Vec<&Zone> = zones.iter().filter(|it| it.in_force.is_none()).collect();
    if let [first, others @ ..] = &waiting[..] {
        let node = &first.node;
        let also = also(others.iter().map(|zone| &zone.node));
        let why = match reports.contains_key(node) {
            true => format!("{node} has not put generation {generation} in force yet{also}"),
            false => format!("{node} has said nothing yet{also}: does netqos-agent run there?"),
        };
        return no("Pending", format!("{counted}; {why}"));
    }
    yes("Programmed", counted)
}

/// The other nodes that have a problem: their own messages are in the conditions of the nodes.
fn also<'n>(others: impl Iterator<Item = &'n Arc<str>>) -> String {
    // The first has been named.
    match list_names(others, LISTED_NAMES - 1) {
        names if names.is_empty() => names,
        names => format!(" (also {names})"),
    }
}

fn and_others(many: usize) -> String {
    match many {
        0 => String::new(),
        _ => format!(", and {many} more"),
    }
}

fn many(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

fn network(reference: &NetworkRef) -> String {
    match reference {
        NetworkRef::Attachment(name) => format!("network definition {name}"),
        NetworkRef::Cluster(name) => format!("cluster-wide network {name}"),
        _ => "network of those it selects".to_owned(),
    }
}

mod remarks;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use remarks::{COUNTED, WORDED};
