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
        problems.extend(self.whereabouts.problems(Instant::now()));
        problems.extend(self.class_problems());
        let limits = self.limits.iter().flat_map(PodLimits::problems);
        problems.extend(limits.cloned());
        let limits = self.limits.iter();
        problems.extend(limits.flat_map(|it| it.bypass_problems(&self.options.node)));
        problems
    }

    /// Says what has become wrong, and what is right again.
    pub(super) fn tell_problems(&mut self) {
        let mut now = self.problems();
        self.problem_log.keep_stalls(&mut now, Instant::now());
        let (began, ended) = self.problem_log.update(&now, Instant::now());
        began.iter().for_each(log_began);
        ended.iter().for_each(log_ended);
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

fn log_began(problem: &Problem) {
    let Problem {
        object,
        reason,
        message,
    } = problem;
    let (object, message) = (OneLine(object), OneLine(message));
    tracing::warn!(%object, %reason, "{message}");
}

fn log_ended(problem: &Problem) {
    let Problem { object, reason, .. } = problem;
    tracing::info!(object = %OneLine(object), %reason, "not any more");
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;
    use std::sync::{Arc, Mutex};

    use netqos_core::ObjectName;
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    use super::*;

    /// The fields of logged events.
    #[derive(Clone, Default)]
    struct Events(Arc<Mutex<Vec<String>>>);

    impl Visit for Events {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            self.0.lock().unwrap().push(format!("{field}={value:?}"));
        }
    }

    impl Subscriber for Events {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn event(&self, event: &Event<'_>) {
            event.record(&mut self.clone());
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    /// An object in a directory may have any name, and messages quote what it says.
    #[test]
    fn logged_problem_cannot_forge_lines() {
        let problem = Problem {
            object: ObjectRef::Pod(ObjectName::new("games", "a\nb")),
            reason: Reason::Invalid,
            message: "x\n2026-01-01 WARN forged \u{1b}[2J".to_owned(),
        };
        let events = Events::default();
        tracing::subscriber::with_default(events.clone(), || {
            log_began(&problem);
            log_ended(&problem);
        });
        let logged = events.0.lock().unwrap();
        assert_eq!(logged.len(), 6, "{logged:?}");
        for field in logged.iter() {
            assert!(!field.contains(char::is_control), "{field:?}");
        }
    }
}
