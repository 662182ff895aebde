//! Bit rates and byte counts, so that a unit is never a comment beside a `u64`.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A rate in bits per second, counted at layer 2 (Ethernet header included, as the kernel's
/// qdiscs count).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct BitRate(u64);

/// An amount of bytes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct ByteCount(u64);

impl BitRate {
    /// A rate of this many bits per second.
    pub const fn from_bits_per_second(bits: u64) -> Self {
        Self(bits)
    }

    /// Bits per second.
    pub const fn bits_per_second(self) -> u64 {
        self.0
    }

    /// Whole bytes per second, rounded down: what the kernel's qdiscs are told, so that a limit
    /// is never exceeded by the rounding.
    pub const fn bytes_per_second(self) -> u64 {
        self.0 / 8
    }

    /// How many whole bytes pass in this many nanoseconds, rounded down; `u64::MAX` when the
    /// number does not fit.
    pub const fn bytes_in_nanos(self, nanos: u64) -> ByteCount {
        let bytes = self.0 as u128 * nanos as u128 / 8_000_000_000;
        ByteCount(if bytes > u64::MAX as u128 {
            u64::MAX
        } else {
            bytes as u64
        })
    }

    /// How many nanoseconds these bytes take at this rate, rounded up; `u64::MAX` when the number
    /// does not fit or the rate is zero.
    pub const fn nanos_for(self, bytes: ByteCount) -> u64 {
        if self.0 == 0 {
            return u64::MAX;
        }
        let nanos = (bytes.0 as u128 * 8_000_000_000).div_ceil(self.0 as u128);
        if nanos > u64::MAX as u128 {
            u64::MAX
        } else {
            nanos as u64
        }
    }
}

impl fmt::Display for BitRate {
    /// The rate as people say it: `10 Mbit/s`, `1.5 Gbit/s`, `999 bit/s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = scale(self.0, &["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"]);
        write!(f, "{value} {unit}")
    }
}

impl ByteCount {
    /// Returns the rate at which they pass in this many nanoseconds; `u64::MAX` bit/s when the number does not fit.
    pub fn rate_over(self, nanos: u64) -> BitRate {
        let bits = u128::from(self.0) * 8_000_000_000 / u128::from(nanos.max(1));
        BitRate(u64::try_from(bits).unwrap_or(u64::MAX))
    }

    /// No bytes.
    pub const ZERO: Self = Self(0);

    /// This many bytes.
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// The whole bytes in this many bits, rounded down.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits / 8)
    }

    /// The number of bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// The sum, or `u64::MAX` bytes when it does not fit.
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl fmt::Display for ByteCount {
    /// The amount as people say it: `64 kB`, `1.5 MB`, `999 B`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = scale(self.0, &["B", "kB", "MB", "GB", "TB"]);
        write!(f, "{value} {unit}")
    }
}

/// The number in the largest unit in which it is at least one, with at most three decimals, so
/// that nothing is rounded away unseen below a thousandth.
fn scale<'u>(number: u64, units: &[&'u str]) -> (f64, &'u str) {
    let mut step = 0;
    let mut divisor = 1_u64;
    while step + 1 < units.len() && number / divisor >= 1000 {
        divisor *= 1000;
        step += 1;
    }
    let value = number as f64 / divisor as f64;
    ((value * 1000.0).round() / 1000.0, units[step])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn conversions_at_the_edges() {
        let petabit = BitRate::from_bits_per_second(1_000_000_000_000_000);
        assert_eq!(petabit.bytes_per_second(), 125_000_000_000_000);
        assert_eq!(BitRate::from_bits_per_second(7).bytes_per_second(), 0);
        assert_eq!(
            BitRate::from_bits_per_second(0).nanos_for(ByteCount::from_bytes(1)),
            u64::MAX
        );
        assert_eq!(
            BitRate::from_bits_per_second(8).nanos_for(ByteCount::from_bytes(1)),
            1_000_000_000
        );
        assert_eq!(
            BitRate::from_bits_per_second(u64::MAX)
                .bytes_in_nanos(u64::MAX)
                .bytes(),
            u64::MAX
        );
        assert_eq!(ByteCount::from_bits(15).bytes(), 1);
    }

    #[test]
    fn display_is_how_people_say_it() {
        for (bits, text) in [
            (0, "0 bit/s"),
            (999, "999 bit/s"),
            (10_000_000, "10 Mbit/s"),
            (1_500_000_000, "1.5 Gbit/s"),
            (1_000_000_000_000_000, "1000 Tbit/s"),
        ] {
            assert_eq!(BitRate::from_bits_per_second(bits).to_string(), text);
        }
        assert_eq!(ByteCount::from_bytes(70_000).to_string(), "70 kB");
    }

    proptest! {
        /// Time and amount are inverse to each other, and rounding never favours the sender.
        #[test]
        fn bytes_and_nanos_are_inverse(rate in 8_u64..=1_000_000_000_000_000, bytes in 0_u64..1 << 40) {
            let rate = BitRate::from_bits_per_second(rate);
            let nanos = rate.nanos_for(ByteCount::from_bytes(bytes));
            prop_assume!(nanos < u64::MAX);
            prop_assert!(rate.bytes_in_nanos(nanos).bytes() >= bytes);
            if nanos > 0 {
                prop_assert!(rate.bytes_in_nanos(nanos - 1).bytes() <= bytes);
            }
        }
    }
}
