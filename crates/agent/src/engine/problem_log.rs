//! The problems that the log has.
//!
//! A pod whose interface is gone has often just completed: its object says so a moment later. Such a
//! problem is logged once it has lasted for as long as a report waits at most.
//!
//! A stalled queue is emptied at once, and the next inspection finds nothing wrong. It is reported for longer than that,
//! or the report to the API server might not have it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use netqos_core::{Problem, Reason};

/// How long an unreachable endpoint lasts before it is logged.
const LASTS: Duration = Duration::from_secs(5);

/// The time for which a stalled queue is reported.
const STALL_LASTS: Duration = Duration::from_secs(30);

/// What was logged, and what waits to be.
#[derive(Debug, Default)]
pub(super) struct ProblemLog {
    logged: BTreeSet<Problem>,
    waiting: BTreeMap<Problem, Instant>,
    /// Stalled queues, with the times at which they were observed last.
    stalls: BTreeMap<Problem, Instant>,
}

impl ProblemLog {
    /// Adds the queues that were stalled a short time ago.
    pub(super) fn keep_stalls(&mut self, problems: &mut BTreeSet<Problem>, now: Instant) {
        self.stalls
            .retain(|_, observed| now.saturating_duration_since(*observed) < STALL_LASTS);
        let stalls = problems.iter();
        let stalls = stalls.filter(|problem| problem.reason == Reason::QueueStalled);
        self.stalls
            .extend(stalls.map(|problem| (problem.clone(), now)));
        problems.extend(self.stalls().cloned());
    }

    /// The queues that were stalled a short time ago.
    pub(super) fn stalls(&self) -> impl Iterator<Item = &Problem> {
        self.stalls.keys()
    }

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

    #[test]
    fn stalled_queue_is_reported_for_a_time() {
        let (mut log, began) = (ProblemLog::default(), Instant::now());
        let mut reported = |mut problems: BTreeSet<Problem>, after: Duration| {
            log.keep_stalls(&mut problems, began + after);
            problems.len()
        };
        let none = BTreeSet::new;
        assert_eq!(reported(problem(Reason::QueueStalled), Duration::ZERO), 1);
        assert_eq!(reported(none(), STALL_LASTS / 2), 1);
        assert_eq!(reported(none(), STALL_LASTS), 0);
        assert_eq!(reported(problem(Reason::Invalid), STALL_LASTS), 1);
        assert_eq!(reported(none(), STALL_LASTS), 0);
    }
}
