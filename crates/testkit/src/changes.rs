//! The loss of a stream while something changes and changes back.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};

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

    /// Makes them, `true` for a change and `false` for its reverse, while `stream` runs for this long and returns the
    /// number of packets that it lost. Returns that number without those that the receive backlog of a busy machine
    /// dropped.
    ///
    /// # Errors
    /// Returns an error if the stream ends before the changes do.
    pub fn lost(
        &self,
        stream: impl FnOnce(Duration) -> u64 + Send,
        mut act: impl FnMut(bool),
    ) -> Result<u64> {
        let duration = (self.stays + self.takes) * 2 * (self.pairs + 5);
        let drops = BacklogDrops::count()?;
        let lost = thread::scope(|scope| {
            let (received, _apart) = Apart::start(|| scope.spawn(move || stream(duration)));
            thread::sleep(2 * self.stays);
            for _ in 0..self.pairs {
                for comes in [true, false] {
                    act(comes);
                    thread::sleep(self.stays);
                }
            }
            ensure!(
                !received.is_finished(),
                "the changes took longer than {duration:?}"
            );
            let lost = received.join();
            lost.map_err(|_| anyhow!("the stream panicked"))
        })?;
        Ok(lost.saturating_sub(drops.so_far()?))
    }
}
