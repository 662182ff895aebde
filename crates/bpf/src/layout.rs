//! The layout of the maps, as `bpf/layout.h` has it for the programs.

/// The version of the layout. It names the folder of the pins.
pub const LAYOUT: u32 = 1;
/// The bytes by which one datagram may exceed the bound of a limiter (`bpf/datagram.h`).
const LARGE_DATAGRAM: u64 = 66_000;

/// What a limiter is told. Times are nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Settings {
    /// Time for a byte at the limit, times `2^cost_shift`, rounded up so that the model never
    /// drains faster than the queue that it models.
    pub cost_per_byte: u64,
    /// A bulk packet is dropped when the virtual queue is longer.
    pub bulk_bound: u64,
    /// The same for a packet of a sparse flow.
    pub sparse_bound: u64,
    /// What a flow may owe at a sixteenth of the limit, and still be sparse.
    pub flow_allowance: u64,
    /// What all sparse flows together may owe at half of the limit.
    pub band_allowance: u64,
    /// The time of 1 KB at the limit; no flow's allowance is smaller.
    pub least_flow: u64,
    /// See `cost_per_byte`.
    pub cost_shift: u32,
    /// A hash of the name of the network that the attachment is of.
    pub network: u32,
    /// Whose limiter it is: a hash of attachment and direction.
    pub owner: u64,
}

/// What a limiter has done since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Counters {
    /// Packets of sparse flows that were let through to the first band.
    pub sparse_packets: u64,
    /// Their bytes at layer 2.
    pub sparse_bytes: u64,
    /// Packets of bulk flows that were let through to the second band.
    pub bulk_packets: u64,
    /// Their bytes at layer 2.
    pub bulk_bytes: u64,
    /// Packets dropped because the queue would have been longer than its bound.
    pub dropped_packets: u64,
    /// Their bytes at layer 2.
    pub dropped_bytes: u64,
}

/// An entry of the map `limiters`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Limiter {
    /// The lock and the numbers of flows, which are the programs' own.
    state: [u64; 2],
    /// The time at which the virtual queue is empty.
    queue: u64,
    /// The time at which sparse flows may again take all of their allowance.
    band: u64,
    /// What it is told.
    pub settings: Settings,
    /// What it has done.
    pub counters: Counters,
}

impl Limiter {
    /// A fresh limiter.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            ..Self::default()
        }
    }

    /// Changes the settings at this time, in nanoseconds of `CLOCK_MONOTONIC`.
    ///
    /// The virtual queue holds bytes, which take another time at another rate. They wait no longer than the new
    /// bound and a large datagram, above which the programs drop every packet. Else a flow that has used a large burst at a low rate
    /// would stop for minutes when the burst is lowered.
    pub fn change(&mut self, settings: Settings, now: u64) {
        let old = &self.settings;
        let shift = f64::from(old.cost_shift) - f64::from(settings.cost_shift);
        let ratio = settings.cost_per_byte as f64 / old.cost_per_byte as f64 * shift.exp2();
        let at_new_rate = |until: u64, most: u64| {
            let waits = until.saturating_sub(now) as f64 * ratio;
            now.saturating_add((waits as u64).min(most))
        };
        let large = settings.cost_per_byte.saturating_mul(LARGE_DATAGRAM) >> settings.cost_shift;
        self.queue = at_new_rate(self.queue, settings.bulk_bound.saturating_add(large));
        self.band = at_new_rate(self.band, settings.band_allowance);
        self.settings = settings;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::{Header, layout};

    #[test]
    fn the_programs_have_the_same() {
        let header = Header(include_str!("../bpf/layout.h"));
        assert_eq!(header.number("NETQOS_LAYOUT"), u64::from(LAYOUT));
        let datagram = Header(include_str!("../bpf/datagram.h"));
        assert_eq!(datagram.number("LARGE_DATAGRAM"), LARGE_DATAGRAM);
        for (name, here) in [
            ("limiter_settings", layout!(Settings, cost_shift, owner)),
            ("limiter_counters", layout!(Counters)),
            ("limiter", layout!(Limiter, queue, band, settings, counters)),
        ] {
            assert_eq!(header.layout(name), here, "{name}");
        }
    }
    #[test]
    fn changed_limiter_keeps_bytes_that_wait_up_to_new_bound() {
        let large = |cost: u64| cost * LARGE_DATAGRAM;
        let settings = |cost_per_byte, cost_shift, bulk_bound| Settings {
            cost_per_byte,
            cost_shift,
            bulk_bound,
            band_allowance: 10,
            ..Settings::default()
        };
        let now = 1_000_000;
        for (waits, from, to, expected) in [
            // A raised rate, a lowered rate, a lowered burst, no queue.
            (800, settings(8 << 4, 4, 900), settings(2, 0, 500), 200),
            (200, settings(2, 0, 500), settings(8 << 4, 4, 900), 800),
            (
                large(9),
                settings(8, 0, 900),
                settings(8, 0, 300),
                300 + large(8),
            ),
            (0, settings(8, 0, 900), settings(4, 0, 300), 0),
            (
                800,
                settings(0, 0, 900),
                settings(4, 0, 300),
                300 + large(4),
            ),
        ] {
            let mut limiter = Limiter {
                queue: now + waits,
                band: now + 7,
                ..Limiter::new(from)
            };
            limiter.change(to, now);
            assert_eq!(limiter.queue - now, expected, "{from:?}, {to:?}");
            assert!(limiter.band - now <= 10);
            assert_eq!(limiter.settings, to);
        }
        // The queue has been empty for long.
        let mut idle = Limiter::new(settings(8, 0, 900));
        idle.change(settings(4, 0, 300), now);
        assert_eq!((idle.queue, idle.band), (now, now));
    }
}
