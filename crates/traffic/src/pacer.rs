//! Sends datagrams on a fixed schedule.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use netqos_core::{BitRate, ByteCount};

use crate::TrafficError;
use crate::clock::{Instant, nanos};
use crate::socket::{is_about_the_past, is_timeout};
use crate::wire::datagram::{Header, Kind};

/// A sleep shorter than this is not worth its system call: the datagrams that come due meanwhile
/// are sent together.
const WORTH_SLEEPING: Duration = Duration::from_micros(50);

/// How much may be caught up after a pause of the processor's; what is older is given up, or the
/// receiver would see a burst that nobody asked for.
const CATCH_UP: Duration = Duration::from_millis(20);

/// What to send.
pub(crate) struct Schedule {
    pub(crate) session: u64,
    pub(crate) rate: BitRate,
    /// Of a datagram's payload, in bytes; at least a header.
    pub(crate) size: usize,
    /// How long, from the first datagram on.
    pub(crate) duration: Duration,
}

/// What was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    /// Datagrams that the kernel took.
    pub(crate) sent: u64,
    /// Datagrams that were due, and that the kernel or the processor did not take in time.
    pub(crate) held_back: u64,
}

impl Schedule {
    /// Sends all of it with `send`, which must not block, or less when `stop` is set.
    pub(crate) fn run(
        &self,
        mut send: impl FnMut(&[u8]) -> io::Result<usize>,
        stop: &AtomicBool,
    ) -> Result<Sent, TrafficError> {
        let gap = self
            .rate
            .nanos_for(ByteCount::from_bytes(self.size as u64))
            .max(1);
        let mut datagram = vec![0x5a; self.size];
        let mut count = Sent::default();
        let start = Instant::now();
        let end = start.after(self.duration);
        let mut due = start;
        while due < end && !stop.load(Ordering::Relaxed) {
            let now = Instant::now();
            let ahead = due.since(now);
            if ahead >= WORTH_SLEEPING {
                // Comes back now and then, so that a slow schedule can be stopped.
                std::thread::sleep(ahead.min(Duration::from_millis(100)));
                continue;
            }
            let behind = now.since(due);
            if behind > CATCH_UP {
                let skipped = nanos(behind - CATCH_UP) / gap + 1;
                count.held_back += skipped;
                due = due.after(Duration::from_nanos(gap.saturating_mul(skipped)));
                continue;
            }
            Header {
                kind: Kind::Data,
                session: self.session,
                number: count.sent,
                sent: now,
            }
            .write_to(&mut datagram);
            match send(&datagram) {
                Ok(_) => count.sent += 1,
                Err(error) if is_timeout(&error) || is_full(&error) => count.held_back += 1,
                Err(error) if is_about_the_past(&error) => continue,
                Err(error) => return Err(TrafficError::socket("send a datagram")(error)),
            }
            due = due.after(Duration::from_nanos(gap));
        }
        Ok(count)
    }
}

/// The device's queue has no room.
fn is_full(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENOBUFS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(megabits: u64, size: usize) -> Schedule {
        Schedule {
            session: 1,
            rate: BitRate::from_bits_per_second(megabits * 1_000_000),
            size,
            duration: Duration::from_millis(300),
        }
    }

    #[test]
    fn the_rate_is_held() {
        for (megabits, size) in [(1, 125), (20, 1400), (200, 1400)] {
            let due = megabits * 1_000_000 * 3 / 10 / 8 / size as u64;
            let mut bytes = 0;
            let run = schedule(megabits, size).run(
                |datagram| {
                    bytes += datagram.len() as u64;
                    Ok(datagram.len())
                },
                &AtomicBool::new(false),
            );
            let count = run.unwrap();
            assert_eq!(bytes, count.sent * size as u64);
            let total = count.sent + count.held_back;
            assert!(
                total.abs_diff(due) <= due / 50 + 1,
                "{megabits} Mbit/s: {count:?}, {due}"
            );
        }
    }

    #[test]
    fn what_the_kernel_does_not_take_is_not_sent() {
        let run = schedule(10, 1250).run(
            |_| Err(io::ErrorKind::WouldBlock.into()),
            &AtomicBool::new(false),
        );
        let count = run.unwrap();
        assert_eq!(count.sent, 0);
        assert!(count.held_back >= 299, "{count:?}");
    }

    #[test]
    fn it_can_be_stopped() {
        let count = schedule(1, 125).run(|d| Ok(d.len()), &AtomicBool::new(true));
        assert_eq!(count.unwrap(), Sent::default());
    }
}
