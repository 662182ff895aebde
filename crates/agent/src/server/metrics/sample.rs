//! What is served when there is one of everything: what docs/metrics.md is made from.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use netqos_core::plan::RuleId;
use netqos_core::{Direction, ObjectName};
use prometheus_client::encoding::text::encode;

use super::registry;
use crate::Check;
use crate::engine::{Durations, Of, Row, Tally};
use crate::multinet::MultinetCounts;
use crate::status::{Counts, LineStatus, ShareStatus};

/// The answer of `/metrics` where each metric has a sample with all of its labels. The values say
/// nothing.
///
/// # Errors
/// It cannot be written.
pub fn metrics_sample() -> Result<String, fmt::Error> {
    let durations = Durations::new([1.0]);
    let mut text = String::new();
    let multinet = MultinetCounts::default();
    encode(&mut text, &registry(tally(), durations, &multinet, true))?;
    Ok(text)
}

/// A pod with a limit and a rule, a line, and a problem.
fn tally() -> Tally {
    let limit = Row {
        of: Arc::new(Of::default()),
        direction: Direction::Egress,
        rule: None,
        rate: None,
        bypass: Some(8),
        counts: Some(Counts::default()),
    };
    let rule = Row {
        rule: Some(RuleId {
            policy: ObjectName::new("games", "free"),
            index: 0,
        }),
        rate: Some(8),
        bypass: None,
        ..limit.clone()
    };
    let line = LineStatus {
        shares: vec![ShareStatus {
            counts: Some(Counts::default()),
            ..ShareStatus::default()
        }],
        ..LineStatus::default()
    };
    let check = Check {
        name: "plan".to_owned(),
        ok: true,
        message: String::new(),
    };
    Tally {
        checks: vec![check],
        objects: BTreeMap::from([("Pod", 1)]),
        features: BTreeMap::from([("qdisc tbf".to_owned(), true)]),
        problems: BTreeMap::from([("UpdateFailed".to_owned(), 1)]),
        lines: vec![line],
        rows: vec![limit, rule],
        attachments: [(("cni", "attached"), 1)].into(),
        ..Tally::default()
    }
}
