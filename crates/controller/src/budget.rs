//! How many writes counts may cost.
//!
//! A pod that starts is worth one write, of agent and controller together. The slice of a peer takes it
//! at once; what pods have left over pays for the counts of the policies that select them.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// How long a pod keeps its write to itself: until it has an address, and its slice is written.
const KEEPS: Duration = Duration::from_secs(30);
/// How fine the time is that pods have started at.
const FINE: Duration = Duration::from_secs(1);
/// The most that is saved up, and owed: what is owed for long is not paid back by counts alone.
const MOST: i64 = 1_000;
const LEAST: i64 = -100;

/// What pods' starts have left over.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    left: i64,
    /// How many have started since then, which keep their writes.
    young: VecDeque<(Instant, i64)>,
}

impl Budget {
    /// A pod was made.
    pub(crate) fn start(&mut self, now: Instant) {
        match self.young.back_mut().filter(|(at, _)| now < *at + FINE) {
            Some((_, many)) => *many += 1,
            None => self.young.push_back((now, 1)),
        }
    }

    /// So many writes were made.
    pub(crate) fn spend(&mut self, writes: usize) {
        self.add(-count(writes));
    }

    /// So many that were spent were not made.
    pub(crate) fn give_back(&mut self, writes: usize) {
        self.add(count(writes));
    }

    /// Whether there is a write left.
    pub(crate) fn affords(&mut self, now: Instant) -> bool {
        while let Some((at, many)) = self.young.front().copied()
            && at + FINE + KEEPS <= now
        {
            self.young.pop_front();
            self.add(many);
        }
        self.left > 0
    }

    fn add(&mut self, writes: i64) {
        self.left = self.left.saturating_add(writes).clamp(LEAST, MOST);
    }
}

fn count(writes: usize) -> i64 {
    i64::try_from(writes).unwrap_or(MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether there is a write left so many seconds after pods have started, each a second after the
    /// other, of which so many were written into a slice.
    fn affords(pods: u64, slices: usize, after: u64) -> bool {
        let mut budget = Budget::default();
        let begin = Instant::now();
        for pod in 0..pods {
            budget.start(begin + Duration::from_secs(pod));
        }
        budget.spend(slices);
        budget.affords(begin + Duration::from_secs(after))
    }

    #[test]
    fn counts_have_what_pods_have_left_over() {
        for (pods, slices, after, is_left) in [
            (0, 0, 60, false),
            (1, 0, 29, false),
            (1, 0, 31, true),
            (1, 1, 60, false),
            (2, 1, 60, true),
            // A pod may be in several sets.
            (2, 3, 60, false),
        ] {
            assert_eq!(
                affords(pods, slices, after),
                is_left,
                "{pods} {slices} {after}"
            );
        }
    }

    #[test]
    fn what_is_spent_is_gone_and_a_debt_ends() {
        let mut budget = Budget::default();
        let begin = Instant::now();
        let late = begin + 2 * KEEPS;
        budget.start(begin);
        assert!(budget.affords(late));
        budget.spend(1);
        assert!(!budget.affords(late));
        budget.give_back(1);
        assert!(budget.affords(late));
        // Pods that are in many sets.
        budget.spend(1_000_000);
        for _ in 0..=-LEAST {
            budget.start(late);
        }
        assert!(budget.affords(late + 2 * KEEPS));
    }
}
