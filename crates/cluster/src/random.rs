//! Random times, so that thousands of clients do not send requests at once.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

/// A time from `least` to `most`, uniformly distributed.
pub(crate) fn between(least: Duration, most: Duration) -> Duration {
    let bits = RandomState::new().build_hasher().finish();
    let part = (bits >> 11) as f64 / (1_u64 << 53) as f64;
    least + most.saturating_sub(least).mul_f64(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_times_are_within_bounds_and_differ() {
        let (least, most) = (Duration::from_secs(30), Duration::from_secs(60));
        let times: Vec<Duration> = (0..1_000).map(|_| between(least, most)).collect();
        assert!(times.iter().all(|time| (least..=most).contains(time)));
        let mean = times.iter().sum::<Duration>() / 1_000;
        let middle = Duration::from_secs(42)..Duration::from_secs(48);
        assert!(middle.contains(&mean), "{mean:?}");
        assert_eq!(between(most, most), most);
        assert_eq!(between(most, least), most);
    }
}
