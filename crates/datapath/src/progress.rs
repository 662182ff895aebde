//! Whether a queue sends what waits in it.
//!
//! That something was sent says little: what is sparse goes by a band of its own, past a packet of bulk that
//! can never leave. A queue that works sends, in a while, what waited in it at its beginning, or what its
//! rate allows.

use std::time::{Duration, Instant};

use netqos_core::{BitRate, ByteCount};
use netqos_netlink::qdisc::Statistics;

/// Shorter than that no queue is watched: a busy machine may take as long.
const SHORTEST: Duration = Duration::from_millis(200);
/// For so many of the longest packets a queue is watched: of what the rate allows it may then owe one.
const PACKETS: u64 = 4;
/// So often in a row a queue is slow that has stalled.
const TIMES: u32 = 2;

/// How fast a queue has to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Its rate.
    pub rate: BitRate,
    /// The longest packet that may wait in it.
    pub longest: ByteCount,
}

impl Pace {
    /// How long it is watched before it can be said to be slow.
    fn watch(&self) -> Duration {
        let longest = ByteCount::from_bytes(self.longest.bytes().saturating_mul(PACKETS));
        Duration::from_nanos(self.rate.nanos_for(longest)).max(SHORTEST)
    }

    /// The least that a queue sends in this time in which so many bytes waited at its beginning.
    fn least(&self, waiting: u32, time: Duration) -> u64 {
        let nanos = time.as_nanos().min(u64::MAX.into()) as u64;
        let half = self.rate.bytes_in_nanos(nanos).bytes() / 2;
        half.min(waiting.into())
    }
}

/// What is known of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Motion {
    /// It sends what waits in it, or nothing does.
    Moves,
    /// That is not known yet, and will be after this time.
    Unknown(Duration),
    /// It has sent less than it should for some time: what waits in it does not leave.
    Stalled,
}

/// What was seen of a queue.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    last: Option<(Instant, Statistics)>,
    /// How often in a row it was slow.
    slow: u32,
}

impl Progress {
    /// Takes note of a look at the queue.
    pub fn note(&mut self, now: Instant, seen: &Statistics, pace: &Pace) -> Motion {
        let last = self.last.filter(|(_, last)| {
            seen.queued_packets > 0 && last.queued_packets > 0 && seen.bytes >= last.bytes
        });
        let Some((then, last)) = last else {
            // Nothing waits, nothing did, or it is another queue.
            let waits = seen.queued_packets > 0;
            self.last = waits.then_some((now, *seen));
            self.slow = 0;
            return match waits {
                true => Motion::Unknown(pace.watch()),
                false => Motion::Moves,
            };
        };
        let time = now.saturating_duration_since(then);
        if time < pace.watch() {
            return Motion::Unknown(pace.watch() - time);
        }
        self.last = Some((now, *seen));
        if seen.bytes - last.bytes >= pace.least(last.queued_bytes, time) {
            self.slow = 0;
            return Motion::Moves;
        }
        self.slow += 1;
        match self.slow < TIMES {
            true => Motion::Unknown(pace.watch()),
            false => Motion::Stalled,
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

    /// What is found by looks at a queue: after so many milliseconds, bytes sent and bytes that wait.
    fn found(looks: &[(u64, u64, u32)]) -> Vec<Motion> {
        let (mut progress, began) = (Progress::default(), Instant::now());
        let note = |&(after, bytes, queued_bytes): &(u64, u64, u32)| {
            let seen = Statistics {
                bytes,
                queued_bytes,
                queued_packets: queued_bytes.div_ceil(70_000),
                ..Statistics::default()
            };
            progress.note(began + Duration::from_millis(after), &seen, &PACE)
        };
        looks.iter().map(note).collect()
    }

    const fn after(millis: u64) -> Motion {
        Motion::Unknown(Duration::from_millis(millis))
    }

    const SOON: Motion = after(280);

    #[test]
    fn what_sends_nothing_has_stalled_after_two_looks() {
        let looks = [
            (0, 5_000, 60_000),
            (30_000, 5_000, 60_000),
            (30_300, 5_000, 60_000),
        ];
        assert_eq!(found(&looks), [SOON, SOON, Motion::Stalled]);
    }

    /// Acknowledgements pass a packet that does not.
    #[test]
    fn nor_do_small_packets_make_it_move() {
        let looks = [
            (0, 5_000, 60_000),
            (30_000, 45_000, 61_000),
            (30_300, 46_000, 60_066),
        ];
        assert_eq!(found(&looks), [SOON, SOON, Motion::Stalled]);
    }

    #[test]
    fn what_sends_what_waited_moves_however_little_that_is() {
        let looks = [
            (0, 0, 1_514),
            (30_000, 1_514, 1_514),
            (60_000, 100_000, 1_514),
        ];
        assert_eq!(found(&looks), [SOON, Motion::Moves, Motion::Moves]);
    }

    #[test]
    fn what_sends_at_half_its_rate_moves() {
        let looks = [
            (0, 0, 900_000),
            (400, 200_000, 900_000),
            (800, 400_000, 900_000),
        ];
        assert_eq!(found(&looks), [SOON, Motion::Moves, Motion::Moves]);
    }

    #[test]
    fn looks_in_a_hurry_say_nothing() {
        let looks = [0, 100, 200, 300, 400].map(|at| (at, 0, 60_000));
        let expected = [SOON, after(180), after(80), SOON, after(180)];
        assert_eq!(found(&looks), expected);
    }

    #[test]
    fn a_queue_that_was_emptied_or_made_anew_begins_anew() {
        for between in [(30_100, 5_000, 0), (30_100, 0, 60_000)] {
            let looks = [
                (0, 5_000, 60_000),
                (30_000, 5_000, 60_000),
                between,
                (60_000, 5_000, 60_000),
            ];
            assert_ne!(found(&looks)[3], Motion::Stalled, "{between:?}");
        }
    }
}
