//! What changes of rules retire is removed when no program has it in hand. A thread waits for that, and the engine does not.

use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use netqos_datapath::rules::GracePeriod;

use super::Engine;

/// Between two looks at the thread.
const LOOK: Duration = Duration::from_millis(5);
/// The engine waits itself if changes come one after the other for so long, each in the grace period of the one before.
const LATE: Duration = Duration::from_millis(100);

/// The thread that waits for a grace period.
#[derive(Debug, Default)]
pub(super) struct Waiter {
    thread: Option<JoinHandle<GracePeriod>>,
    /// Something is retired since then.
    since: Option<Instant>,
}

impl Waiter {
    /// The time of the next look.
    pub(super) fn due(&self) -> Option<Instant> {
        self.since.map(|_| Instant::now() + LOOK)
    }

    /// Returns true if no thread waits, after so long.
    fn is_late(&self) -> bool {
        self.thread.is_none() && self.since.is_some_and(|since| since.elapsed() > LATE)
    }

    /// The period that is over.
    fn ended(&mut self) -> Option<GracePeriod> {
        let thread = self.thread.take_if(|thread| thread.is_finished())?;
        thread.join().ok()
    }

    /// Has a thread wait, unless one does. Nothing is retired: `None`.
    fn wait_for(&mut self, period: Option<GracePeriod>) {
        let Some(period) = period else {
            self.since = None;
            return;
        };
        self.since.get_or_insert_with(Instant::now);
        if self.thread.is_none() {
            let wait = move || {
                period.wait();
                period
            };
            // Without a thread, the engine waits when it is late.
            self.thread = Builder::new()
                .name("grace-period".to_owned())
                .spawn(wait)
                .ok();
        }
    }
}

impl Engine {
    /// Removes what changes of rules have retired, if no program has it in hand.
    pub(super) fn finish_rules(&mut self) {
        let Some(rules) = &mut self.rules else {
            return;
        };
        let plan = self.index.plan();
        let over = self.waiter.ended();
        let mut outcome = over.map(|period| rules.proceed(plan, period));
        if self.waiter.is_late() && rules.grace_period().is_some() {
            let before = outcome.map_or(0, |outcome| outcome.changes);
            let mut finished = rules.finish(plan);
            finished.changes += before;
            outcome = Some(finished);
        }
        self.waiter.wait_for(rules.grace_period());
        let Some(outcome) = outcome else {
            return;
        };
        self.reconciled.changes += outcome.changes;
        let is_other = outcome.problems != self.outcome.problems;
        self.outcome = outcome;
        if is_other {
            self.tell_problems();
            self.plan_retry(false);
        }
    }
}
