//! The packet scheduler's arithmetic, as the kernel does it, so that what a limit becomes in the
//! kernel can be told beforehand and recognised afterwards.

/// Nanoseconds in one tick of the packet scheduler (`PSCHED_SHIFT` 6 in
/// `include/net/pkt_sched.h`; the kernel has known no other since 2.6.31).
pub const NANOS_PER_TICK: u64 = 64;

/// `struct psched_ratecfg`: how long bytes take at a rate, by one multiplication and a shift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateConfig {
    multiplier: u32,
    shift: u8,
}

impl RateConfig {
    /// `psched_ratecfg_precompute` of `net/sched/sch_generic.c`, for this many bytes per second.
    pub fn new(bytes_per_second: u64) -> Self {
        let mut config = Self {
            multiplier: 1,
            shift: 0,
        };
        if bytes_per_second == 0 {
            return config;
        }
        let mut factor = 1_000_000_000_u64;
        loop {
            config.multiplier = (factor / bytes_per_second) as u32;
            if config.multiplier & 1 << 31 != 0 || factor & 1 << 63 != 0 {
                return config;
            }
            factor <<= 1;
            config.shift += 1;
        }
    }

    /// `psched_l2t_ns`: nanoseconds for this many bytes.
    pub fn nanos(&self, bytes: u32) -> u64 {
        (u64::from(bytes) * u64::from(self.multiplier)) >> self.shift
    }

    /// The same in ticks, as the kernel shows it: truncated to 32 bits.
    pub fn ticks(&self, bytes: u32) -> u32 {
        (self.nanos(bytes) / NANOS_PER_TICK) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_for_bytes_is_exact_to_the_tick() {
        for (rate, bytes, nanos) in [
            (12_500_000_u64, 125_000_u32, 10_000_000_u64),
            (125_000_000, 70_000, 560_000),
            (1, 1, 1_000_000_000),
            // At a Pbit/s a frame takes no time that could be told.
            (125_000_000_000_000, 1_514, 0),
            (125_000_000_000_000, 1_514_000_000, 12_112),
        ] {
            let got = RateConfig::new(rate).nanos(bytes);
            assert!(
                got.abs_diff(nanos) <= 1 + (nanos >> 30),
                "{rate} {bytes}: {got} not {nanos}"
            );
        }
    }
}
