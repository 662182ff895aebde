//! What nodes have said, and what they have not.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use netqos_core::{NodeReport, ObjectName, Reason};
use netqos_index::Index;

use crate::code::{ELSEWHERE, NO_AGENT, NO_NODE, NODE_PROBLEM, STALE};
use crate::message::{Message, Subject};
use crate::policies::many;
use crate::snapshot::Snapshot;

/// Reports name no more policies than that.
const MOST_POLICIES: usize = 10_000;
/// Problems that follow from objects, and are found in them.
const OF_OBJECTS: [Reason; 7] = [
    Reason::Invalid,
    Reason::InvalidBandwidth,
    Reason::NetworkNotFound,
    Reason::Conflict,
    Reason::QuotaExceeded,
    Reason::TooManyRules,
    Reason::BurstRaised,
];

/// What is left to others, on purpose.
const LEFT: [Reason; 3] = [
    Reason::NetworkQosElsewhere,
    Reason::AnnotationsElsewhere,
    Reason::AnotherAtWork,
];

/// What is to be enforced on a node.
#[derive(Debug, Default)]
struct Asked {
    pods: BTreeSet<ObjectName>,
    policies: BTreeSet<ObjectName>,
}

/// Of a cluster: each node with something to enforce, and each report.
pub(crate) fn look(snapshot: &Snapshot, index: &Index) -> Vec<Message> {
    let known = snapshot.known();
    if !snapshot.is_live() || !known.all("NetworkQoSNodeReport") {
        return Vec::new();
    }
    let mut messages = Vec::new();
    let asked = asked(snapshot, index);
    for (node, asked) in &asked {
        if !snapshot.reports().contains_key(node) {
            let text = format!(
                "limits or rules are for {} on it, such as {}, and no agent has said anything: does \
                 netqos-agent run there?",
                many(asked.pods.len(), "pod"),
                asked
                    .pods
                    .first()
                    .map_or_else(String::new, ToString::to_string)
            );
            messages.push(Message::new(&NO_AGENT, Subject::node(node), text));
        }
    }
    // What a quota keeps out, no node puts in force.
    if known.quotas() {
        messages.extend(stale(snapshot, &asked));
    }
    let nodes = snapshot.nodes();
    for (node, report) in snapshot.reports() {
        if known.all("Node") && !nodes.is_empty() && !nodes.contains(node) {
            let text = "there is a report of it, and it does not exist";
            messages.push(Message::new(&NO_NODE, Subject::node(node), text));
            continue;
        }
        messages.extend(problems(node, report));
    }
    messages
}

fn asked(snapshot: &Snapshot, index: &Index) -> BTreeMap<Arc<str>, Asked> {
    let plan = index.plan();
    let mut asked: BTreeMap<Arc<str>, Asked> = BTreeMap::new();
    for endpoint in plan.endpoints.values() {
        let name = &endpoint.pod.name;
        let Some(node) = snapshot.pod(name).and_then(|(pod, _)| pod.node.clone()) else {
            continue;
        };
        let of_node = asked.entry(node).or_default();
        of_node.pods.insert(name.clone());
        let chain = endpoint.chain.and_then(|chain| plan.chains.get(&chain));
        let rules = chain.into_iter().flat_map(|chain| &chain.rules);
        let policies = rules.map(|rule| rule.id.policy.clone());
        of_node.policies.extend(policies);
    }
    asked
}

/// The policies that nodes with an agent have not put in force as they are now.
fn stale(snapshot: &Snapshot, asked: &BTreeMap<Arc<str>, Asked>) -> Vec<Message> {
    let mut messages = Vec::new();
    for (policy, found) in snapshot.policies() {
        let mut behind = Vec::new();
        for (node, asked) in asked {
            let Some(report) = snapshot.reports().get(node) else {
                continue;
            };
            let said = report.policies.get(&policy.name);
            let unsaid = said.is_none() && report.policies.len() >= MOST_POLICIES;
            let in_force = said.is_some_and(|it| it.covers(&found.uid, found.generation));
            let said = said.map(|it| it.generation);
            if asked.policies.contains(&policy.name) && !in_force && !unsaid {
                behind.push((node, said));
            }
        }
        if let [(node, said), others @ ..] = &behind[..] {
            let more = match others.len() {
                0 => String::new(),
                others => format!(", and neither have {}", many(others, "other node")),
            };
            let has = match said {
                Some(said) => format!(" (but generation {said})"),
                None => String::new(),
            };
            let text = format!(
                "node {node} has not put generation {} in force{has}{more}",
                found.generation
            );
            messages.push(Message::new(
                &STALE,
                Subject::new("NetworkQoS", &policy.name),
                text,
            ));
        }
    }
    messages
}

fn problems(node: &str, report: &NodeReport) -> Vec<Message> {
    let named = report.problems.iter();
    let named = named.filter(|it| OF_OBJECTS.iter().all(|of| of.to_string() != it.reason));
    let messages = named.map(|problem| {
        let subject = match problem.kind.as_str() {
            "Node" => Subject::node(node),
            kind => Subject::new(kind, &problem.object),
        };
        let on = match problem.kind.as_str() {
            "Node" => String::new(),
            _ => format!("on node {node}: "),
        };
        let text = format!("{on}{}: {}", problem.reason, problem.message);
        let is_left = LEFT.iter().any(|it| it.to_string() == problem.reason);
        let code = if is_left { &ELSEWHERE } else { &NODE_PROBLEM };
        Message::new(code, subject, text)
    });
    let mut messages: Vec<Message> = messages.collect();
    if report.more_problems > 0 {
        let text = format!(
            "it has {} problems more than its report has room for: netqos status there names them",
            report.more_problems
        );
        messages.push(Message::new(&NODE_PROBLEM, Subject::node(node), text));
    }
    messages
}
