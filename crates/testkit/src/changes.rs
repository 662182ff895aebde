//! The loss of a stream while something changes and changes back.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

use crate::{Apart, BacklogDrops};

/// A series of changes and their reverses.
#[derive(Clone, Copy, Debug)]
pub struct Changes {
    /// Pairs of changes.
    pub pairs: u32,
    /// The time from one change to the next.
    pub stays: Duration,
    /// The longest that one change takes on a machine that is not busy.
    pub takes: Duration,
}

impl Changes {
    /// These changes, with as much time for each as a pair of them takes now, in the middle of three, if that is longer.
    #[must_use]
    pub fn timed(&self, mut act: impl FnMut(bool)) -> Self {
        let mut pairs = [(); 3].map(|()| {
            let began = Instant::now();
            act(true);
            act(false);
            began.elapsed()
        });
        pairs.sort();
        Self {
            takes: self.takes.max(pairs[1]),
            ..*self
        }
    }

    /// Makes them, `true` for a change and `false` for its reverse, while `stream` runs for this long, again where they
    /// take longer, and returns the number of packets that it lost. Returns that number without those that the receive
    /// backlog of a busy machine dropped.
    ///
    /// # Errors
    /// Returns an error if the stream panics, or `/proc` cannot be read.
    pub fn lost(
        &self,
        mut stream: impl FnMut(Duration) -> u64 + Send,
        mut act: impl FnMut(bool),
    ) -> Result<u64> {
        let duration = (self.stays + self.takes) * 2 * (self.pairs + 5);
        let drops = BacklogDrops::count()?;
        let are_made = AtomicBool::new(false);
        // A panic of `act` leaves it false.
        let run = || {
            let mut lost = 0;
            for _ in 0..10 {
                lost += stream(duration);
                if are_made.load(Ordering::Relaxed) {
                    break;
                }
            }
            lost
        };
        let lost = thread::scope(|scope| {
            let (received, _apart) = Apart::start(|| scope.spawn(run));
            thread::sleep(2 * self.stays);
            for _ in 0..self.pairs {
                for comes in [true, false] {
                    act(comes);
                    thread::sleep(self.stays);
                }
            }
            are_made.store(true, Ordering::Relaxed);
            received.join()
        });
        let lost = lost.map_err(|_| anyhow!("the stream panicked"))?;
        Ok(lost.saturating_sub(drops.so_far()?))
    }
}
