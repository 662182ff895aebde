//! Whether the engine works.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What the engine shows while it works, without being asked.
#[derive(Debug)]
pub(crate) struct Pulse {
    born: Instant,
    /// Milliseconds since then, when it last began something.
    last: AtomicU64,
}

impl Pulse {
    pub(super) fn new() -> Self {
        Self {
            born: Instant::now(),
            last: AtomicU64::new(0),
        }
    }

    pub(super) fn beat(&self) {
        let now = self.born.elapsed().as_millis();
        self.last.store(now as u64, Ordering::Relaxed);
    }

    /// For how long it has shown nothing.
    pub(crate) fn silence(&self) -> Duration {
        let last = Duration::from_millis(self.last.load(Ordering::Relaxed));
        self.born.elapsed().saturating_sub(last)
    }
}
