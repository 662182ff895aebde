//! How the durations of many events are summed up.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::{as_nanos, nanos};

/// The order statistics of some durations. In JSON, whole nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Quantiles {
    /// How many there were.
    pub count: u64,
    /// The shortest.
    #[serde(rename = "minNanos", with = "as_nanos")]
    pub min: Duration,
    /// The average.
    #[serde(rename = "meanNanos", with = "as_nanos")]
    pub mean: Duration,
    /// Half of them were at most this long.
    #[serde(rename = "p50Nanos", with = "as_nanos")]
    pub p50: Duration,
    /// Nine of ten were at most this long.
    #[serde(rename = "p90Nanos", with = "as_nanos")]
    pub p90: Duration,
    /// All but one in a hundred were at most this long.
    #[serde(rename = "p99Nanos", with = "as_nanos")]
    pub p99: Duration,
    /// The longest.
    #[serde(rename = "maxNanos", with = "as_nanos")]
    pub max: Duration,
}

impl Quantiles {
    /// Sums up; `None` when there is nothing to sum up. Exact, by the nearest rank.
    pub fn of(mut durations: Vec<Duration>) -> Option<Self> {
        durations.sort_unstable();
        let (min, max) = (*durations.first()?, *durations.last()?);
        let rank = |percent: usize| {
            let rank = (durations.len() * percent).div_ceil(100).max(1) - 1;
            durations.get(rank).copied().unwrap_or(max)
        };
        let sum: u128 = durations.iter().map(|d| u128::from(nanos(*d))).sum();
        let mean = sum / durations.len() as u128;
        Some(Self {
            count: durations.len() as u64,
            min,
            // A mean is between the least and the greatest, so it fits as they do.
            mean: Duration::from_nanos(u64::try_from(mean).unwrap_or(u64::MAX)),
            p50: rank(50),
            p90: rank(90),
            p99: rank(99),
            max,
        })
    }
}

impl fmt::Display for Quantiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "p50 {:.3?}  p90 {:.3?}  p99 {:.3?}  max {:.3?}",
            self.p50, self.p90, self.p99, self.max
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranks_are_the_nearest() {
        let q = Quantiles::of((1..=200).map(Duration::from_micros).collect()).unwrap();
        assert_eq!(
            (q.p50.as_micros(), q.p90.as_micros(), q.p99.as_micros()),
            (100, 180, 198)
        );
        assert_eq!((q.min.as_micros(), q.max.as_micros()), (1, 200));
        assert_eq!(q.mean.as_nanos(), 100_500);
        assert_eq!(Quantiles::of(Vec::new()), None);
    }

    proptest! {
        #[test]
        fn they_are_in_order_and_survive_json(nanos in prop::collection::vec(0_u64..1 << 40, 1..300)) {
            let q = Quantiles::of(nanos.into_iter().map(Duration::from_nanos).collect()).unwrap();
            prop_assert!(q.min <= q.p50 && q.p50 <= q.p90 && q.p90 <= q.p99 && q.p99 <= q.max);
            prop_assert!(q.min <= q.mean && q.mean <= q.max);
            let text = serde_json::to_string(&q).unwrap();
            prop_assert_eq!(serde_json::from_str::<Quantiles>(&text).unwrap(), q);
        }
    }
}
