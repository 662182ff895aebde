//! The machine's monotonic clock, as a number that can be sent to another process.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// A point on `CLOCK_MONOTONIC`, in nanoseconds. Two of them can be compared when they come from
/// the same boot of the same machine (and no time namespace stands between); see [`Machine`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Instant(u64);

/// Whose clock it is: the boot's id, by which two ends find out that they share a clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Machine(String);

impl Instant {
    pub(crate) fn now() -> Self {
        let time = clock_gettime(ClockId::Monotonic);
        // The kernel's monotonic clock starts at zero and never goes back.
        Self(time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs())
    }

    pub(crate) const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    pub(crate) const fn nanos(self) -> u64 {
        self.0
    }

    /// How long ago `earlier` was; zero when it was not.
    pub(crate) const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    pub(crate) fn elapsed(self) -> Duration {
        Self::now().since(self)
    }

    pub(crate) fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }

    /// Returns at this time, or at once when it is past.
    pub(crate) fn sleep(self) {
        let left = self.since(Self::now());
        if !left.is_zero() {
            std::thread::sleep(left);
        }
    }
}

impl Machine {
    /// This machine, or `None` where the kernel does not say.
    pub(crate) fn this() -> Option<Self> {
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        Some(Self(id.trim().to_owned()))
    }
}

/// The nanoseconds of a duration; `u64::MAX` (584 years) when they don't fit.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// How durations stand in JSON: whole nanoseconds, in fields whose names end in `Nanos`.
pub(crate) mod as_nanos {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(value: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(super::nanos(*value))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_nanos)
    }
}
