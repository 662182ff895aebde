//! What changes of rules retire is removed once for many changes: the engine waits for an RCU grace period then.

use std::time::{Duration, Instant};

use netqos_datapath::rules::RuleDatapath;

use super::Engine;

/// How long something may be retired, whatever comes.
const MOST_TIME: Duration = Duration::from_millis(100);

impl Engine {
    /// Removes what changes of rules have retired, if it is time.
    pub(super) fn finish_rules(&mut self) {
        let is_unfinished = |rules: &&mut RuleDatapath| rules.is_unfinished();
        let Some(rules) = self.rules.as_mut().filter(is_unfinished) else {
            self.finish_at = None;
            return;
        };
        let now = Instant::now();
        if *self.finish_at.get_or_insert(now + MOST_TIME) > now {
            return;
        }
        self.finish_at = None;
        let outcome = rules.finish(self.index.plan());
        self.reconciled.changes += outcome.changes;
        let is_other = outcome.problems != self.outcome.problems;
        self.outcome = outcome;
        if is_other {
            self.tell_problems();
            self.plan_retry(false);
        }
    }
}
