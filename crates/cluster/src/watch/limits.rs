//! Time limits of watches.

use std::time::Duration;

use crate::random::between;

/// The range of a limit that is random: from, to.
type Range = (Duration, Duration);

/// Time limits of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchLimits {
    /// The time after which the server ends a watch request. Each request states a random one of these, so
    /// that watches that began together are not renewed together.
    pub timeout: Range,
    /// The longest time without an event or bookmark. API servers send a bookmark about every minute; a
    /// connection without one is dead even if TCP works. The watch is renewed from where it was.
    pub silence: Duration,
    /// The longest time until the server begins to answer, and between two parts of a list.
    pub answer: Duration,
    /// The time between two lists of a kind that does not exist, if its CRD may not be watched.
    pub poll: Range,
}

impl Default for WatchLimits {
    /// Half an hour to an hour, five minutes without a bookmark, and five to ten minutes between polls. API
    /// servers answer or refuse a request within a minute.
    fn default() -> Self {
        const MINUTE: Duration = Duration::from_secs(60);
        Self {
            timeout: (30 * MINUTE, 60 * MINUTE),
            silence: 5 * MINUTE,
            answer: Duration::from_secs(65),
            poll: (5 * MINUTE, 10 * MINUTE),
        }
    }
}

impl WatchLimits {
    /// The timeout of the next watch request, in seconds.
    pub(super) fn timeout_seconds(&self) -> u64 {
        let (least, most) = self.timeout;
        between(least, most).as_secs()
    }

    /// The time until the next poll.
    pub(super) fn next_poll(&self) -> Duration {
        let (least, most) = self.poll;
        between(least, most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests per second by which this many watches are renewed.
    fn renewals(watches: u32) -> String {
        let (least, most) = WatchLimits::default().timeout;
        let mean = (least + most).as_secs_f64() / 2.0;
        let rate = (f64::from(watches) / mean).round() as u64;
        match rate {
            0..1_000 => rate.to_string(),
            _ => format!("{},{:03}", rate / 1_000, rate % 1_000),
        }
    }

    #[test]
    fn scale_document_counts_the_renewals_of_these_limits() {
        const WATCHES: u32 = 40;
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/scale.md");
        let text = std::fs::read_to_string(path).unwrap();
        let [few, many] = [5_000, 130_000].map(|agents| renewals(agents * WATCHES));
        let row = format!("| {few} | {many} |");
        assert!(text.contains(&row), "{row}");
        let renewal = format!("renewal of {WATCHES} watches");
        assert!(text.contains(&renewal), "{renewal}");
    }

    #[test]
    fn watch_timeouts_are_half_an_hour_to_an_hour() {
        let limits = WatchLimits::default();
        let timeouts: Vec<u64> = (0..1_000).map(|_| limits.timeout_seconds()).collect();
        assert!(timeouts.iter().all(|it| (1_800..=3_600).contains(it)));
        assert!(timeouts.iter().any(|it| *it < 2_400));
        assert!(timeouts.iter().any(|it| *it > 3_000));
    }
}
