//! The problems that the log has.
//!
//! A pod whose interface is gone has often just completed: its object says so a moment later. Such a
//! problem is logged once it has lasted for as long as a report waits at most.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use netqos_core::{Problem, Reason};

/// How long an unreachable endpoint lasts before it is logged.
const LASTS: Duration = Duration::from_secs(5);

/// What was logged, and what waits to be.
#[derive(Debug, Default)]
pub(super) struct ProblemLog {
    logged: BTreeSet<Problem>,
    waiting: BTreeMap<Problem, Instant>,
}

impl ProblemLog {
    /// These are the problems now. Returns those to log, and those that were logged and have ended.
    pub(super) fn update(
        &mut self,
        problems: &BTreeSet<Problem>,
        now: Instant,
    ) -> (Vec<Problem>, Vec<Problem>) {
        let mut began = Vec::new();
        let mut waiting = BTreeMap::new();
        for problem in problems.difference(&self.logged) {
            let due = match problem.reason {
                Reason::EndpointUnreachable => {
                    let due = self.waiting.get(problem).copied();
                    due.unwrap_or(now + LASTS)
                }
                _ => now,
            };
            match due <= now {
                true => began.push(problem.clone()),
                false => {
                    waiting.insert(problem.clone(), due);
                }
            }
        }
        self.waiting = waiting;
        let ended: Vec<Problem> = self.logged.difference(problems).cloned().collect();
        self.logged.retain(|problem| problems.contains(problem));
        self.logged.extend(began.iter().cloned());
        (began, ended)
    }

    /// The time at which the first problem that waits is to be logged.
    pub(super) fn due(&self) -> Option<Instant> {
        self.waiting.values().min().copied()
    }
}

#[cfg(test)]
mod tests {
    use netqos_core::{ObjectName, ObjectRef};

    use super::*;

    fn problem(reason: Reason) -> BTreeSet<Problem> {
        BTreeSet::from([Problem {
            object: ObjectRef::Pod(ObjectName::new("games", "a")),
            reason,
            message: "m".to_owned(),
        }])
    }

    #[test]
    fn unreachable_endpoint_is_logged_once_it_has_lasted() {
        let (mut log, began) = (ProblemLog::default(), Instant::now());
        let unreachable = problem(Reason::EndpointUnreachable);
        let update = |log: &mut ProblemLog, problems: &BTreeSet<Problem>, after: Duration| {
            let (began, ended) = log.update(problems, began + after);
            (began.len(), ended.len())
        };
        let none = BTreeSet::new();
        assert_eq!(update(&mut log, &unreachable, Duration::ZERO), (0, 0));
        assert_eq!(log.due(), Some(began + LASTS));
        // The pod has completed.
        assert_eq!(update(&mut log, &none, LASTS / 2), (0, 0));
        assert_eq!(log.due(), None);
        assert_eq!(update(&mut log, &unreachable, LASTS), (0, 0));
        assert_eq!(update(&mut log, &unreachable, LASTS * 3 / 2), (0, 0));
        assert_eq!(update(&mut log, &unreachable, LASTS * 2), (1, 0));
        assert_eq!(log.due(), None);
        assert_eq!(update(&mut log, &unreachable, LASTS * 3), (0, 0));
        assert_eq!(update(&mut log, &none, LASTS * 4), (0, 1));
    }

    #[test]
    fn other_problem_is_logged_at_once() {
        let (mut log, now) = (ProblemLog::default(), Instant::now());
        let invalid = problem(Reason::Invalid);
        assert_eq!(log.update(&invalid, now).0.len(), 1);
        assert_eq!(log.update(&BTreeSet::new(), now).1.len(), 1);
    }
}
