//! Limits on the number of repairs.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// The budget. Another process that undoes more repairs than this probably means to.
const REPAIRS: usize = 5;
const PERIOD: Duration = Duration::from_secs(60);

/// The recent repairs of each key.
#[derive(Clone, Debug)]
pub struct RepairBudget<K>(BTreeMap<K, VecDeque<Instant>>);

impl<K> Default for RepairBudget<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord> RepairBudget<K> {
    /// Returns true if the last minute had five repairs of this key.
    pub fn is_exhausted(&mut self, key: &K, now: Instant) -> bool {
        self.0.retain(|_, repairs| {
            repairs.retain(|at| now.saturating_duration_since(*at) < PERIOD);
            !repairs.is_empty()
        });
        self.0
            .get(key)
            .is_some_and(|repairs| repairs.len() >= REPAIRS)
    }

    /// Counts a repair.
    pub fn record(&mut self, key: K, now: Instant) {
        self.0.entry(key).or_default().push_back(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_of_each_key_is_five_repairs_in_a_minute() {
        let (mut repairs, began) = (RepairBudget::default(), Instant::now());
        let mut begin = |what, seconds| {
            let now = began + Duration::from_secs(seconds);
            let may = !repairs.is_exhausted(&what, now);
            if may {
                repairs.record(what, now);
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
