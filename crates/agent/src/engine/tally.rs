//! What is counted, for Prometheus.
//!
//! A node with a hundred pods and hundreds of rules has tens of thousands of rows. They are taken as
//! numbers beside names that the plan has anyway; their text is made elsewhere, row by row.

use std::collections::BTreeMap;
use std::sync::Arc;

use netqos_core::Direction;
use netqos_core::plan::RuleId;
use netqos_daemon::Check;
use netqos_datapath::Support;

use super::Engine;
use super::report::Glance;
use crate::multinet::{AttachmentCounts, count_attachments};
use crate::status::{Counts, LineStatus, LinkStatus, Reconciled};

/// All of it.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) checks: Vec<Check>,
    pub(crate) reconciled: Reconciled,
    pub(crate) objects: BTreeMap<&'static str, u64>,
    /// Whether each feature of the kernel works, as far as that is known.
    pub(crate) features: BTreeMap<String, bool>,
    /// How many problems there are for each reason.
    pub(crate) problems: BTreeMap<String, i64>,
    /// The interfaces that all is in force on, and the others.
    pub(crate) in_force: i64,
    pub(crate) failing: i64,
    pub(crate) links: LinkStatus,
    pub(crate) class_backend: String,
    pub(crate) lines: Vec<LineStatus>,
    pub(crate) rows: Vec<Row>,
    pub(crate) attachments: AttachmentCounts,
}

/// What is counted of a rule for an interface, or of the limit of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) of: Arc<Of>,
    pub(crate) direction: Direction,
    /// `None`: the limit of the interface as a whole.
    pub(crate) rule: Option<RuleId>,
    /// What it is held to, in bits per second.
    pub(crate) rate: Option<u64>,
    /// The rate at which the interface received when its limit was found to be bypassed, in bits per second.
    pub(crate) bypass: Option<u64>,
    /// `None` where nothing counts.
    pub(crate) counts: Option<Counts>,
}

/// An interface of a pod. Of one that was not found the name is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Of {
    pub(crate) namespace: Arc<str>,
    pub(crate) pod: Arc<str>,
    pub(crate) interface: String,
}

impl Engine {
    /// What is counted, now.
    pub(crate) fn tally(&self) -> Tally {
        let glance = Glance::at(self);
        let mut tally = Tally {
            checks: self.checks(),
            reconciled: self.reconciled(),
            objects: self.objects(),
            links: self.links(),
            class_backend: self.classes.backend().to_string(),
            lines: self.lines(),
            attachments: count_attachments(&self.options.multinet_records),
            ..Tally::default()
        };
        let features = self.features.iter().flat_map(|features| features.iter());
        tally.features = features
            .map(|(feature, support)| (feature.to_string(), matches!(support, Support::Works)))
            .collect();
        for problem in &glance.problems {
            let many = tally.problems.entry(problem.reason.to_string());
            *many.or_default() += 1;
        }
        // A vector that grows is copied again and again, and what it was before stays in memory for a while.
        let endpoints = glance.endpoints();
        let rules = endpoints.iter().map(|(_, of)| glance.rules(of).count());
        let limits = 2 * endpoints.len();
        tally.rows = Vec::with_capacity(rules.sum::<usize>() + limits);
        for (id, endpoint) in endpoints {
            let limits = glance.limits(endpoint);
            match glance.failing(id, endpoint, &limits).is_empty() {
                true => tally.in_force += 1,
                false => tally.failing += 1,
            }
            let interface = endpoint.attach.interface();
            let of = Arc::new(Of {
                namespace: endpoint.pod.name.namespace.clone(),
                pod: endpoint.pod.name.name.clone(),
                interface: interface.map_or_else(String::new, |one| one.name.clone()),
            });
            for (direction, limit) in limits {
                tally.rows.push(Row {
                    of: of.clone(),
                    direction,
                    rule: None,
                    rate: Some(limit.rate),
                    bypass: limit.bypass_rate,
                    counts: limit.counts,
                });
            }
            for rule in glance.rules(endpoint) {
                let rate = rule.bandwidth.map(|it| it.rate.bits_per_second());
                tally.rows.push(Row {
                    of: of.clone(),
                    direction: Direction::Egress,
                    rate,
                    bypass: None,
                    counts: Some(glance.counts(id, &rule.id)),
                    rule: Some(rule.id.clone()),
                });
            }
        }
        tally
    }
}
