//! The layout of the maps, as `bpf/layout.h` has it for the programs.

/// The version of the layout. It names the folder of the pins.
pub const LAYOUT: u32 = 1;

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

/// An entry of the map `limiters`. The state at its beginning is the programs' own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Limiter {
    state: [u64; 4],
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::{Header, layout};

    #[test]
    fn the_programs_have_the_same() {
        let header = Header(include_str!("../bpf/layout.h"));
        assert_eq!(header.number("NETQOS_LAYOUT"), u64::from(LAYOUT));
        for (name, here) in [
            ("limiter_settings", layout!(Settings, cost_shift, owner)),
            ("limiter_counters", layout!(Counters)),
            ("limiter", layout!(Limiter, settings, counters)),
        ] {
            assert_eq!(header.layout(name), here, "{name}");
        }
    }
}
