//! The unit of the rates in a `trafficShaping` argument.

use std::fmt;

/// What a number in a `trafficShaping` argument counts.
///
/// The KEP writes bits per second, the older design document kilobits; a plugin list says which
/// with its key `unit`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RateUnit {
    /// Bits per second; bursts in bits. `"unit": "bps"`, or no unit.
    #[default]
    BitsPerSecond,
    /// 1000 bits per second; bursts in 1000 bits. `"unit": "Kbps"`.
    KilobitsPerSecond,
}

impl RateUnit {
    /// The unit of this name, in any case.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::BitsPerSecond, Self::KilobitsPerSecond]
            .into_iter()
            .find(|unit| unit.name().eq_ignore_ascii_case(name))
    }

    /// The unit's name in a plugin list.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BitsPerSecond => "bps",
            Self::KilobitsPerSecond => "Kbps",
        }
    }

    /// How many bits (per second) one of it is.
    pub const fn bits(self) -> u64 {
        match self {
            Self::BitsPerSecond => 1,
            Self::KilobitsPerSecond => 1_000,
        }
    }
}

impl fmt::Display for RateUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
