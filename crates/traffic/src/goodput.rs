//! How bytes that arrive become a rate: counted by the receiver, from the first byte on.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use netqos_core::{BitRate, ByteCount};
use serde::{Deserialize, Serialize};

use crate::TrafficError;
use crate::clock::{Instant, as_nanos, nanos};

/// How often the receiver looks, unless it is told otherwise.
pub const INTERVAL: Duration = Duration::from_millis(100);

/// The most often that it looks.
const SHORTEST: Duration = Duration::from_millis(1);

/// How long the receiver waits for the first byte.
const FIRST_BYTE: Duration = Duration::from_secs(10);

/// What arrived in one interval, the warm-up included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// The end of the interval, counted from the first byte of the test.
    #[serde(rename = "atNanos", with = "as_nanos")]
    pub at: Duration,
    /// How long the interval really was.
    #[serde(rename = "elapsedNanos", with = "as_nanos")]
    pub elapsed: Duration,
    /// Payload that arrived in it.
    #[serde(rename = "receivedBytes")]
    pub received: ByteCount,
}

/// What arrived after the warm-up, and how fast.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Goodput {
    /// Payload per second.
    #[serde(rename = "bitsPerSecond")]
    pub rate: BitRate,
    /// The payload.
    #[serde(rename = "receivedBytes")]
    pub received: ByteCount,
    /// In this time.
    #[serde(rename = "elapsedNanos", with = "as_nanos")]
    pub elapsed: Duration,
    /// The intervals of the whole test, warm-up included.
    pub samples: Vec<Sample>,
}

/// The bytes that have arrived so far, counted by whoever reads them.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    bytes: AtomicU64,
    /// Set when nothing more is wanted.
    over: AtomicBool,
}

/// When to count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    /// Skipped after the first byte.
    pub(crate) omit: Duration,
    /// Counted after that.
    pub(crate) duration: Duration,
    /// How often the receiver looks.
    pub(crate) interval: Duration,
}

impl Sample {
    /// The rate of this interval.
    pub fn rate(&self) -> BitRate {
        rate(self.received, self.elapsed)
    }
}

impl Arrivals {
    pub(crate) fn add(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn total(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Counts for the window, which starts with the first byte, and ends early when the arrivals
    /// are [over](Self::end).
    ///
    /// # Errors
    ///
    /// No first byte within ten seconds; and what `on_progress` returns, which is called with each
    /// sample, and without one now and then while nothing has arrived.
    pub(crate) fn measure(
        &self,
        window: Window,
        mut on_progress: impl FnMut(Option<Sample>) -> Result<(), TrafficError>,
    ) -> Result<Goodput, TrafficError> {
        let start = self.wait_for_first_byte(&mut on_progress)?;
        let end = start.after(window.omit).after(window.duration);

        let mut samples = Vec::new();
        let (mut last, mut last_total) = (start, 0);
        let mut counted_from = window.omit.is_zero().then_some((start, 0));
        while last < end && !self.is_over() {
            // On a grid from the first byte, so that a late wake-up doesn't delay all that follow.
            let next = end.min(last.after(until_next_beat(window.interval, last.since(start))));
            next.sleep();
            let (now, total) = (Instant::now(), self.total());
            let sample = Sample {
                at: now.since(start),
                elapsed: now.since(last),
                received: ByteCount::from_bytes(total - last_total),
            };
            samples.push(sample);
            on_progress(Some(sample))?;
            (last, last_total) = (now, total);
            if counted_from.is_none() && last.since(start) >= window.omit {
                counted_from = Some((last, last_total));
            }
        }
        let (from, before) = counted_from.unwrap_or((start, 0));
        let elapsed = last.since(from);
        let received = ByteCount::from_bytes(last_total - before);
        Ok(Goodput {
            rate: rate(received, elapsed),
            received,
            elapsed,
            samples,
        })
    }

    fn wait_for_first_byte(
        &self,
        mut on_progress: impl FnMut(Option<Sample>) -> Result<(), TrafficError>,
    ) -> Result<Instant, TrafficError> {
        let asked = Instant::now();
        while self.total() == 0 {
            if asked.elapsed() > FIRST_BYTE || self.is_over() {
                return Err(TrafficError::NothingArrived { waited: FIRST_BYTE });
            }
            on_progress(None)?;
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(Instant::now())
    }
}

/// How long from this point of the test to the next multiple of the interval. The last fifth of an
/// interval is added to the next one, or a late wake-up would be followed by a sample of nothing.
fn until_next_beat(interval: Duration, since_start: Duration) -> Duration {
    // No more often than it can.
    let interval = nanos(interval.max(SHORTEST));
    let into = nanos(since_start) % interval;
    let left = interval - into;
    Duration::from_nanos(if left < interval / 5 {
        left + interval
    } else {
        left
    })
}

fn rate(received: ByteCount, elapsed: Duration) -> BitRate {
    let bits = u128::from(received.bytes()) * 8 * 1_000_000_000;
    let per_second = bits.checked_div(elapsed.as_nanos()).unwrap_or_default();
    BitRate::from_bits_per_second(u64::try_from(per_second).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn the_warm_up_is_not_counted_and_the_samples_add_up() {
        let arrivals = Arc::new(Arrivals::default());
        let source = Arc::clone(&arrivals);
        let thread = std::thread::spawn(move || {
            // A burst, and then 8 Mbit/s.
            source.add(5_000_000);
            while !source.is_over() {
                source.add(10_000);
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        let window = Window {
            omit: Duration::from_millis(200),
            duration: Duration::from_millis(500),
            interval: INTERVAL,
        };
        let goodput = arrivals.measure(window, |_| Ok(())).unwrap();
        arrivals.end();
        thread.join().unwrap();

        let all: u64 = goodput.samples.iter().map(|s| s.received.bytes()).sum();
        assert!(all >= 5_000_000 + goodput.received.bytes());
        assert!(
            goodput.received.bytes() < 600_000,
            "the burst was before: {goodput:?}"
        );
        assert!(goodput.received.bytes() > 100_000, "{goodput:?}");
        assert!(goodput.elapsed >= Duration::from_millis(400));
    }

    #[test]
    fn rates_at_the_edges() {
        assert_eq!(
            rate(ByteCount::from_bytes(1), Duration::ZERO).bits_per_second(),
            0
        );
        let second = Duration::from_secs(1);
        assert_eq!(
            rate(ByteCount::from_bytes(1_250_000), second).bits_per_second(),
            10_000_000
        );
        assert_eq!(
            rate(ByteCount::from_bytes(u64::MAX), Duration::from_nanos(1)).bits_per_second(),
            u64::MAX
        );
    }

    #[test]
    fn it_looks_as_often_as_it_is_told() {
        let arrivals = Arrivals::default();
        arrivals.add(1);
        let window = Window {
            omit: Duration::ZERO,
            duration: Duration::from_millis(300),
            interval: Duration::from_millis(10),
        };
        let goodput = arrivals.measure(window, |_| Ok(())).unwrap();
        // A busy machine wakes it late.
        assert!((15..=31).contains(&goodput.samples.len()), "{goodput:?}");
    }

    #[test]
    fn beats_are_on_the_grid() {
        for (at, left) in [(0, 100), (1, 99), (79, 21), (85, 115), (100, 100)] {
            assert_eq!(
                until_next_beat(INTERVAL, Duration::from_millis(at)),
                Duration::from_millis(left),
                "{at}"
            );
        }
    }
}
