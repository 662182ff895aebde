//! What is remarked of a policy that is in force.

use std::collections::BTreeMap;

use netqos_core::{NodeReport, Reason, ReportedProblem};

use super::{Facts, Finding, also, many, yes};

/// Conditions of which a change of the message matters: with whom it is in conflict, and by how much a
/// burst was raised.
pub(crate) const WORDED: [&str; 2] = ["Conflict", "BurstRaised"];
/// Conditions of which the message says on how many nodes it is so.
pub(crate) const COUNTED: [&str; 2] = ["Degraded", "AnotherAtWork"];

/// What nodes remark of the policy, by the type of the condition.
pub(super) fn of(facts: &Facts<'_>) -> BTreeMap<String, Finding> {
    let mut remarks = BTreeMap::new();
    let mut counted = COUNTED.map(|_| Vec::new());
    for node in &facts.subjects.nodes {
        let Some(report) = facts.reports.get(node) else {
            continue;
        };
        for problem in report.problems.iter().filter(|it| is_of(facts, it)) {
            let finding = |reason| yes(reason, format!("{node}: {}", problem.message));
            let reason = |it: Reason| it.to_string() == problem.reason;
            let (type_, why) = match () {
                () if reason(Reason::Conflict) => (WORDED[0], "EqualPriority"),
                () if reason(Reason::BurstRaised) => (WORDED[1], "BurstTooSmall"),
                () => continue,
            };
            // The first node by name that does.
            let remark = remarks.entry(type_.to_owned());
            remark.or_insert_with(|| finding(why));
        }
        let found = [lesser(facts, report), others(report)];
        for (nodes, found) in counted.iter_mut().zip(found) {
            nodes.extend(found.map(|(reason, message)| (node, reason, message)));
        }
    }
    for (type_, nodes) in COUNTED.into_iter().zip(counted) {
        if let [(node, reason, message), others @ ..] = &nodes[..] {
            let all = many(facts.subjects.nodes.len(), "node");
            let also = also(others.iter().map(|(node, ..)| *node));
            let message = format!("on {} of {all}; {node}: {message}{also}", nodes.len());
            remarks.insert(type_.to_owned(), yes(reason, message));
        }
    }
    remarks
}

/// True of a problem of this policy.
fn is_of(facts: &Facts<'_>, problem: &ReportedProblem) -> bool {
    problem.kind == "NetworkQoS" && problem.object == *facts.name
}

/// True where the kernel lacks something.
pub(super) fn is_of_kernel(problem: &ReportedProblem) -> bool {
    problem.reason == Reason::KernelFeatureMissing.to_string()
}

/// What is in force of the policy on a node by lesser means: its own rules, or those of all.
fn lesser(facts: &Facts<'_>, report: &NodeReport) -> Option<(String, String)> {
    if !report.policies.contains_key(facts.name) {
        return None;
    }
    let lacks = report.problems.iter().filter(|it| is_of_kernel(it));
    joined(lacks.filter(|it| is_of(facts, it) || it.kind == "Node"))
}

/// Who else is at work on a node and may limit the same pods.
fn others(report: &NodeReport) -> Option<(String, String)> {
    let reasons = [Reason::AnnotationsElsewhere, Reason::AnotherAtWork].map(|it| it.to_string());
    let of_node = report.problems.iter().filter(|it| it.kind == "Node");
    joined(of_node.filter(|it| reasons.contains(&it.reason)))
}

/// The reason of the first, and the messages of all.
fn joined<'p>(mut problems: impl Iterator<Item = &'p ReportedProblem>) -> Option<(String, String)> {
    let first = problems.next()?;
    let others = problems.map(|it| it.message.as_str());
    let all: Vec<&str> = [first.message.as_str()].into_iter().chain(others).collect();
    Some((first.reason.clone(), all.join("; ")))
}
