//! How often what somebody takes away is put back.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// So often in a minute: who goes on may want it gone.
const TIMES: usize = 5;
const MINUTE: Duration = Duration::from_secs(60);

/// What was put back lately.
#[derive(Clone, Debug)]
pub struct Repairs<K>(BTreeMap<K, VecDeque<Instant>>);

impl<K> Default for Repairs<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord> Repairs<K> {
    /// Returns true if this was put back five times in the last minute: who takes it away is left alone for
    /// the rest of it.
    pub fn is_spent(&mut self, what: &K, now: Instant) -> bool {
        self.0.retain(|_, times| {
            times.retain(|at| now.saturating_duration_since(*at) < MINUTE);
            !times.is_empty()
        });
        self.0.get(what).is_some_and(|times| times.len() >= TIMES)
    }

    /// Takes note of a repair.
    pub fn note(&mut self, what: K, now: Instant) {
        self.0.entry(what).or_default().push_back(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_in_any_minute_and_each_for_itself() {
        let (mut repairs, began) = (Repairs::default(), Instant::now());
        let mut begin = |what, seconds| {
            let now = began + Duration::from_secs(seconds);
            let may = !repairs.is_spent(&what, now);
            if may {
                repairs.note(what, now);
            }
            may
        };
        for seconds in [0, 10, 20, 30, 40] {
            assert!(begin("a", seconds));
        }
        assert!(!begin("a", 50) && !begin("a", 59));
        assert!(begin("b", 59));
        assert!(begin("a", 60));
        assert!(!begin("a", 61) && begin("a", 70));
        assert!(begin("a", 1000));
    }
}
