//! When what failed is tried again: soon at first, and more and more seldom when that does not help.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use netqos_core::{ObjectRef, Reason};

/// What fails: about what, and in which way. Its message may be another each time.
pub(super) type Failing = BTreeSet<(ObjectRef, Reason)>;

/// How long a failure waits for another try: at first, and at most.
const FIRST: Duration = Duration::from_millis(100);
const AT_MOST: Duration = Duration::from_secs(60);

/// Waits longer each time.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failing: Failing,
    next: Option<Next>,
}

#[derive(Clone, Copy, Debug)]
struct Next {
    at: Instant,
    waited: Duration,
}

impl Backoff {
    /// When it is time for another try; `None`: nothing fails.
    pub(super) fn due(&self) -> Option<Instant> {
        self.next.map(|next| next.at)
    }

    /// Takes note of what fails now; `tried`: all of it was tried again just before.
    ///
    /// A try that was due stays due, however much else happens. What did not fail before is tried
    /// soon, however long what did has been failing.
    pub(super) fn note(&mut self, now: Instant, failing: Failing, tried: bool) {
        let is_new = !failing.is_subset(&self.failing);
        let after = |waited| Next {
            at: now + waited,
            waited,
        };
        self.next = match self.next {
            _ if failing.is_empty() => None,
            Some(next) if tried && !is_new => Some(after((next.waited * 2).min(AT_MOST))),
            Some(next) if !tried && (!is_new || next.at < now + FIRST) => Some(next),
            _ => Some(after(FIRST)),
        };
        self.failing = failing;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failing(names: &[&str]) -> Failing {
        let node = |name: &&str| (ObjectRef::Node((*name).into()), Reason::UpdateFailed);
        names.iter().map(node).collect()
    }

    /// How long it waits from now on, in milliseconds.
    fn wait(backoff: &Backoff, now: Instant) -> Option<u128> {
        let due = backoff.due()?;
        Some(due.saturating_duration_since(now).as_millis())
    }

    #[test]
    fn what_goes_on_failing_is_tried_more_and_more_seldom_and_every_minute_in_the_end() {
        let (mut backoff, mut now) = (Backoff::default(), Instant::now());
        let mut waits = Vec::new();
        for _ in 0..12 {
            backoff.note(now, failing(&["a"]), true);
            waits.extend(wait(&backoff, now));
            now = backoff.due().unwrap();
        }
        let doubled = [100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 51_200];
        assert_eq!(waits[..10], doubled);
        assert_eq!(waits[10..], [60_000, 60_000]);
        backoff.note(now, failing(&[]), true);
        assert_eq!(backoff.due(), None);
        backoff.note(now, failing(&["a"]), false);
        assert_eq!(wait(&backoff, now), Some(100), "from the beginning");
    }

    #[test]
    fn what_else_happens_neither_delays_a_try_nor_brings_it_forward() {
        let (mut backoff, now) = (Backoff::default(), Instant::now());
        for _ in 0..4 {
            backoff.note(now, failing(&["a"]), true);
        }
        let later = now + Duration::from_millis(300);
        backoff.note(later, failing(&["a"]), false);
        assert_eq!(wait(&backoff, later), Some(500));
    }

    #[test]
    fn what_has_not_failed_before_is_tried_soon() {
        let (mut backoff, now) = (Backoff::default(), Instant::now());
        for _ in 0..20 {
            backoff.note(now, failing(&["a"]), true);
        }
        backoff.note(now, failing(&["a", "b"]), false);
        assert_eq!(wait(&backoff, now), Some(100));
        let later = now + Duration::from_millis(50);
        backoff.note(later, failing(&["a", "b", "c"]), false);
        assert_eq!(wait(&backoff, later), Some(50), "it was due already");
        let now = backoff.due().unwrap();
        backoff.note(now, failing(&["a", "d"]), true);
        assert_eq!(wait(&backoff, now), Some(100), "not at once");
        backoff.note(now, failing(&["a"]), true);
        assert_eq!(wait(&backoff, now), Some(200), "the others are well");
    }
}
