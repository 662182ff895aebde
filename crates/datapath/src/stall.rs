//! Detection of stalled queues.
//!
//! A packet that the token bucket can never pay for blocks the band of bulk flows. Sparse flows still pass it in
//! the other band, so bytes sent do not prove that a queue works. A working queue sends, during an interval,
//! its backlog at the start of the interval or the bytes that its rate allows.

use std::time::{Duration, Instant};

use netqos_core::{BitRate, ByteCount};
use netqos_netlink::qdisc::Statistics;

/// The shortest interval. A busy machine may delay a working queue by as much.
const LEAST_INTERVAL: Duration = Duration::from_millis(200);
/// The length of an interval in packets of the largest size. One of them may be unpaid at its end.
const INTERVAL_PACKETS: u64 = 4;
/// The number of consecutive slow intervals of a stalled queue.
const SLOW_INTERVALS: u32 = 2;

/// The rate at which a queue must send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The rate of its token bucket.
    pub rate: BitRate,
    /// The size of the largest packet in it.
    pub longest: ByteCount,
}

impl Pace {
    fn interval(&self) -> Duration {
        let packets = self.longest.bytes().saturating_mul(INTERVAL_PACKETS);
        let nanos = self.rate.nanos_for(ByteCount::from_bytes(packets));
        Duration::from_nanos(nanos).max(LEAST_INTERVAL)
    }

    /// The bytes that a working queue sends in this time at least.
    fn least(&self, backlog: u32, time: Duration) -> u64 {
        let nanos = time.as_nanos().min(u64::MAX.into()) as u64;
        let half = self.rate.bytes_in_nanos(nanos).bytes() / 2;
        half.min(backlog.into())
    }
}

/// The state of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StallState {
    /// The queue sends, or is empty.
    Moving,
    /// The detector needs another observation after this time.
    Unknown(Duration),
    /// The queue does not send its backlog.
    Stalled,
}

/// Observations of one queue.
#[derive(Clone, Debug, Default)]
pub struct StallDetector {
    last: Option<(Instant, Statistics)>,
    slow_intervals: u32,
}

impl StallDetector {
    /// Adds an observation.
    pub fn observe(&mut self, now: Instant, statistics: &Statistics, pace: &Pace) -> StallState {
        let has_backlog = statistics.queued_packets > 0;
        // The counter of a recreated qdisc starts at 0.
        let last = self
            .last
            .filter(|(_, last)| has_backlog && statistics.bytes >= last.bytes);
        let Some((then, last)) = last else {
            self.last = has_backlog.then_some((now, *statistics));
            self.slow_intervals = 0;
            return match has_backlog {
                true => StallState::Unknown(pace.interval()),
                false => StallState::Moving,
            };
        };
        let time = now.saturating_duration_since(then);
        if time < pace.interval() {
            return StallState::Unknown(pace.interval() - time);
        }
        self.last = Some((now, *statistics));
        if statistics.bytes - last.bytes >= pace.least(last.queued_bytes, time) {
            self.slow_intervals = 0;
            return StallState::Moving;
        }
        self.slow_intervals += 1;
        match self.slow_intervals < SLOW_INTERVALS {
            true => StallState::Unknown(pace.interval()),
            false => StallState::Stalled,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace {
        rate: BitRate::from_bits_per_second(8_000_000),
        longest: ByteCount::from_bytes(70_000),
    };

    /// The states after observations: milliseconds since the first, bytes sent, backlog in bytes.
    fn states(observations: &[(u64, u64, u32)]) -> Vec<StallState> {
        let (mut detector, began) = (StallDetector::default(), Instant::now());
        let observe = |&(after, bytes, queued_bytes): &(u64, u64, u32)| {
            let seen = Statistics {
                bytes,
                queued_bytes,
                queued_packets: queued_bytes.div_ceil(70_000),
                ..Statistics::default()
            };
            detector.observe(began + Duration::from_millis(after), &seen, &PACE)
        };
        observations.iter().map(observe).collect()
    }

    const fn after(millis: u64) -> StallState {
        StallState::Unknown(Duration::from_millis(millis))
    }

    const SOON: StallState = after(280);

    #[test]
    fn queue_sending_nothing_is_stalled_after_two_intervals() {
        let observations = [
            (0, 5_000, 60_000),
            (30_000, 5_000, 60_000),
            (30_300, 5_000, 60_000),
        ];
        assert_eq!(states(&observations), [SOON, SOON, StallState::Stalled]);
    }

    #[test]
    fn queue_sending_acknowledgements_only_is_stalled() {
        let observations = [
            (0, 5_000, 60_000),
            (30_000, 45_000, 61_000),
            (30_300, 46_000, 60_066),
        ];
        assert_eq!(states(&observations), [SOON, SOON, StallState::Stalled]);
    }

    #[test]
    fn queue_sending_a_small_backlog_is_moving() {
        let observations = [
            (0, 0, 1_514),
            (30_000, 1_514, 1_514),
            (60_000, 100_000, 1_514),
        ];
        assert_eq!(
            states(&observations),
            [SOON, StallState::Moving, StallState::Moving]
        );
    }

    #[test]
    fn queue_sending_at_half_its_rate_is_moving() {
        let observations = [
            (0, 0, 900_000),
            (400, 200_000, 900_000),
            (800, 400_000, 900_000),
        ];
        assert_eq!(
            states(&observations),
            [SOON, StallState::Moving, StallState::Moving]
        );
    }

    #[test]
    fn observations_within_an_interval_do_not_count() {
        let observations = [0, 100, 200, 300, 400].map(|at| (at, 0, 60_000));
        let expected = [SOON, after(180), after(80), SOON, after(180)];
        assert_eq!(states(&observations), expected);
    }

    #[test]
    fn emptied_or_recreated_queue_starts_over() {
        for between in [(30_100, 5_000, 0), (30_100, 0, 60_000)] {
            let observations = [
                (0, 5_000, 60_000),
                (30_000, 5_000, 60_000),
                between,
                (60_000, 5_000, 60_000),
            ];
            assert_ne!(states(&observations)[3], StallState::Stalled, "{between:?}");
        }
    }
}
