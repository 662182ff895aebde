//! The rates of HTB classes.

use netqos_core::BitRate;
use netqos_netlink::class::HtbClass;

/// Bytes per second of who is guaranteed nothing: HTB knows no class without a rate.
pub(crate) const FLOOR: u64 = 1_000;
/// Bytes that may be sent at once: what passes in so much time, and some frames. Less, and a timer that
/// fires late costs rate; more, and who was idle sends too much when it begins.
const BURST_NANOS: u64 = 2_000_000;
const LEAST_BURST: u64 = 4 * 1514;
/// Bytes per second of the fastest line there is by far, and of one that is not known to be any faster
/// than most.
const FASTEST: u64 = 8_000_000_000_000 / 8;
const UNKNOWN: u64 = 10_000_000_000 / 8;

/// A class of these rates, in bytes per second, that may have all of its burst at once.
pub(crate) fn class(rate: u64, ceil: u64, quantum: u32, priority: u8) -> HtbClass {
    let rate = rate.max(FLOOR);
    let ceil = ceil.max(rate);
    HtbClass {
        rate,
        ceil,
        burst: burst(rate),
        ceil_burst: burst(ceil),
        quantum,
        priority,
    }
}

fn burst(bytes_per_second: u64) -> u32 {
    passing(bytes_per_second, BURST_NANOS, LEAST_BURST)
}

/// The rate that the room in queues is reckoned with: what is above all lines is that of a line of which
/// nobody knows what it carries.
pub(crate) fn reckoned(bytes_per_second: u64) -> u64 {
    match bytes_per_second > FASTEST {
        true => UNKNOWN,
        false => bytes_per_second,
    }
}

/// The bytes that pass in so many nanoseconds, and at least so many.
pub(crate) fn passing(bytes_per_second: u64, nanos: u64, least: u64) -> u32 {
    let bytes = BitRate::from_bits_per_second(bytes_per_second.saturating_mul(8))
        .bytes_in_nanos(nanos)
        .bytes();
    u32::try_from(bytes.max(least)).unwrap_or(u32::MAX)
}
