//! What is not as it should be, and who is told of it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use netqos_core::{NodeReport, ObjectRef, OneLine, Problem, Reason};

use super::Engine;
use super::limits::PodLimits;
use crate::node_report::reported;

/// That no rule can be put in force on the node, whatever policies ask for.
pub(super) const NO_RULES: &str = "rules";

impl Engine {
    pub(super) fn node_problem(&mut self, what: &'static str, reason: Reason, message: String) {
        let object = ObjectRef::Node(self.options.node.clone());
        let problem = Problem {
            object,
            reason,
            message,
        };
        self.node_problems.insert(what, problem);
    }

    /// Everything that is wrong.
    pub(super) fn problems(&self) -> BTreeSet<Problem> {
        let mut problems: BTreeSet<Problem> = self.index.problems().into_iter().collect();
        let of_sources = self.sources.values().flat_map(|(all, _)| all);
        problems.extend(of_sources.map(|problem| self.last_valid.explain(problem)));
        problems.extend(self.outcome.problems.iter().cloned());
        problems.extend(self.node_problems.values().cloned());
        problems.extend(self.others.problems.iter().cloned());
        problems.extend(self.pins_problem.clone());
        problems.extend(self.class_problems());
        let limits = self.limits.iter().flat_map(PodLimits::problems);
        problems.extend(limits.cloned());
        problems
    }

    /// Says what has become wrong, and what is right again.
    pub(super) fn tell_problems(&mut self) {
        let now = self.problems();
        let (began, ended) = self.problem_log.update(&now, Instant::now());
        for problem in &began {
            let Problem {
                object,
                reason,
                message,
            } = problem;
            let (object, message) = (OneLine(object), OneLine(message));
            tracing::warn!(%object, %reason, "{message}");
        }
        for problem in &ended {
            let Problem { object, reason, .. } = problem;
            tracing::info!(%object, %reason, "not any more");
        }
        self.known_problems = now;
        self.tell_report();
    }

    /// Leaves what is in force where whoever tells it to others finds it, if it is something else
    /// than before.
    fn tell_report(&self) {
        let Some(reports) = &self.options.reports else {
            return;
        };
        let node = &self.options.node;
        let problems = self.known_problems.iter();
        let report = NodeReport {
            node: node.as_str().into(),
            agent: netqos_version::VERSION.to_owned(),
            pod: self.options.pod.clone(),
            policies: match self.node_problems.contains_key(NO_RULES) {
                true => BTreeMap::new(),
                false => self.policies.clone(),
            },
            problems: problems.map(|it| reported(it, node)).collect(),
            more_problems: 0,
        };
        reports.send_if_modified(|last| {
            let is_new = *last != report;
            *last = report;
            is_new
        });
    }
}
