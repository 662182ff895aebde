//! What is served when there is one of everything: what docs/metrics.md is made from.

use std::collections::BTreeMap;
use std::fmt;

use prometheus_client::encoding::text::encode;

use super::registry;
use crate::Check;
use crate::engine::Durations;
use crate::status::{
    Counts, LimitStatus, LineStatus, PodStatus, ProblemStatus, RuleStatus, ShareStatus, Status,
};

/// The answer of `/metrics` where each metric has a sample with all of its labels. The values say
/// nothing.
///
/// # Errors
/// It cannot be written.
pub fn metrics_sample() -> Result<String, fmt::Error> {
    let features = BTreeMap::from([("qdisc tbf".to_owned(), true)]);
    let durations = Durations::new([1.0]);
    let mut text = String::new();
    encode(&mut text, &registry(&status(), &features, durations, true))?;
    Ok(text)
}

/// A pod with a limit and a rule, a line, and a problem.
fn status() -> Status {
    let pod = PodStatus {
        limits: vec![LimitStatus {
            direction: "egress".to_owned(),
            counts: Some(Counts::default()),
            ..LimitStatus::default()
        }],
        rules: vec![RuleStatus {
            rate: Some(8),
            ..RuleStatus::default()
        }],
        ..PodStatus::default()
    };
    let line = LineStatus {
        shares: vec![ShareStatus {
            counts: Some(Counts::default()),
            ..ShareStatus::default()
        }],
        ..LineStatus::default()
    };
    let problem = ProblemStatus {
        kind: "Pod".to_owned(),
        name: "games/a".to_owned(),
        reason: "UpdateFailed".to_owned(),
        message: String::new(),
    };
    let check = Check {
        name: "plan".to_owned(),
        ok: true,
        message: String::new(),
    };
    Status {
        checks: vec![check],
        objects: BTreeMap::from([("Pod".to_owned(), 1)]),
        lines: vec![line],
        pods: vec![pod],
        problems: vec![problem],
        ..Status::default()
    }
}
