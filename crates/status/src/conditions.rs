//! What is found, as the object says it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use netqos_k8s::NetworkQosStatus;

use crate::verdict::{COUNTED, WORDED};
use crate::{Finding, Verdict};

/// How a status differs from another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Difference {
    /// In nothing.
    None,
    /// In how many pods or nodes there are, and in nothing that somebody waits for.
    Counts,
    /// In what holds, or why it does not.
    Matter,
}

/// The status of an object of which this was found. Conditions that hold as they did `before` keep
/// the time since when they do.
pub fn status(
    verdict: &Verdict,
    before: Option<&NetworkQosStatus>,
    now: &Time,
) -> NetworkQosStatus {
    let known = before.and_then(|before| before.conditions.as_deref());
    let known = known.unwrap_or_default();
    let condition = |type_: &str, finding: &Finding| {
        let status = if finding.holds { "True" } else { "False" };
        let same = known
            .iter()
            .find(|known| known.type_ == type_ && known.status == status);
        Condition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: finding.reason.clone(),
            message: finding.message.clone(),
            observed_generation: Some(verdict.generation),
            last_transition_time: same.map_or(now, |same| &same.last_transition_time).clone(),
        }
    };
    let mut conditions = vec![
        condition("Accepted", &verdict.accepted),
        condition("Programmed", &verdict.programmed),
        condition("Ready", &verdict.ready()),
    ];
    let remarks = verdict.remarks.iter();
    conditions.extend(remarks.map(|(type_, remark)| condition(type_, remark)));
    NetworkQosStatus {
        status: Some(verdict.text()),
        rules: verdict.rules.and_then(|it| i64::try_from(it).ok()),
        selected_pods: i64::try_from(verdict.pods).ok(),
        nodes: Some(verdict.nodes()),
        conditions: Some(conditions),
    }
}

/// How a status that is to be differs from the one that is there, as far as it is ours: conditions of
/// types that neither names with our reasons are somebody else's.
pub fn difference(is: Option<&NetworkQosStatus>, shall: &NetworkQosStatus) -> Difference {
    let Some(is) = is else {
        return Difference::Matter;
    };
    if !ours(is, shall).eq(ours(shall, shall)) {
        return Difference::Matter;
    }
    let same = counts(is) == counts(shall);
    match same {
        true => Difference::None,
        false => Difference::Counts,
    }
}

/// The conditions that every policy has.
const JUDGED: [&str; 3] = ["Accepted", "Programmed", "Ready"];
/// What is worth an event. Who else is at work is told of each node, and not of each policy.
const TOLD: [&str; 3] = [WORDED[0], WORDED[1], COUNTED[0]];

/// Something that is remarked of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remark<'s> {
    /// The type of the condition.
    pub type_: &'s str,
    /// What it says.
    pub message: &'s str,
    /// What makes it another one: its message, or its reason where that counts nodes.
    pub which: &'s str,
}

/// What is remarked of a policy that is worth an event.
pub fn remarks(status: &NetworkQosStatus) -> impl Iterator<Item = Remark<'_>> {
    let conditions = status.conditions.iter().flatten();
    let remarks = conditions.filter(|it| it.status == "True" && TOLD.contains(&&*it.type_));
    remarks.map(|it| Remark {
        type_: &it.type_,
        message: &it.message,
        which: match COUNTED.contains(&&*it.type_) {
            true => &it.reason,
            false => &it.message,
        },
    })
}

/// What of a condition matters to who waits for it.
type Said<'s> = (&'s str, &'s str, &'s str, Option<i64>, Option<&'s str>);

/// Our conditions, in the order of their types.
fn ours<'s>(
    of: &'s NetworkQosStatus,
    shall: &'s NetworkQosStatus,
) -> impl Iterator<Item = Said<'s>> {
    let to_be = shall.conditions.as_deref().unwrap_or_default();
    let is_ours = |type_: &str| {
        JUDGED.contains(&type_)
            || WORDED.contains(&type_)
            || COUNTED.contains(&type_)
            || to_be.iter().any(|known| known.type_ == type_)
    };
    let conditions = of.conditions.as_deref().unwrap_or_default();
    let mut said: Vec<Said<'s>> = conditions
        .iter()
        .filter(|it| is_ours(&it.type_))
        .map(|it| {
            // That it is in force is told with counts; who is in conflict with it is not.
            let counts = it.status == "True" && !WORDED.contains(&&*it.type_);
            let message = (!counts).then_some(it.message.as_str());
            (
                it.type_.as_str(),
                it.status.as_str(),
                it.reason.as_str(),
                it.observed_generation,
                message,
            )
        })
        .collect();
    said.sort_unstable();
    said.into_iter()
}

/// The numbers and words of a status that change with counts.
type Counts<'s> = ([Option<i64>; 2], [Option<&'s str>; 2], Vec<&'s str>);

fn counts(status: &NetworkQosStatus) -> Counts<'_> {
    let conditions = status.conditions.iter().flatten();
    let counted = conditions.filter(|it| COUNTED.contains(&&*it.type_));
    (
        [status.rules, status.selected_pods],
        [status.nodes.as_deref(), status.status.as_deref()],
        counted.map(|it| it.message.as_str()).collect(),
    )
}

#[cfg(test)]
mod tests;
