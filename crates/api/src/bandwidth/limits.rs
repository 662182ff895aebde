//! The four numbers of the capability `bandwidth`, and the well-known plugin's rules for them.

use netqos_core::{BitRate, ByteCount, Direction, Limit, Limits};

use super::BandwidthConfigError;
use super::object::Object;

/// The bursts, in bits, that runtimes send with every rate because the capability has no way to
/// leave the burst out: the kubelet's (2^31 − 1), containerd's (2^32 − 1) and CRI-O's
/// ((2^32 − 1) · 8 − 1). They mean "choose"; the well-known plugin takes them literally.
pub const CHOOSE_BURSTS: [u64; 3] = [2_147_483_647, 4_294_967_295, 34_359_738_359];

/// From this many bytes on, the well-known plugin refuses a burst.
const BURST_END: u64 = u32::MAX as u64;

/// The least rate that the kernel's token bucket can hold: one byte per second.
const MIN_RATE: u64 = 8;

/// A direction's burst, as asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Burst {
    /// Not set, or zero.
    Unset,
    /// A number that means "choose".
    Choose,
    /// This many bits.
    Bits(u64),
}

/// A direction's rate and burst, as asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    /// In bits per second; zero: no limit.
    pub(super) rate: u64,
    pub(super) burst: Burst,
}

impl Burst {
    /// The burst of this many bits.
    pub(super) fn from_bits(bits: u64) -> Self {
        match bits {
            0 => Self::Unset,
            bits if CHOOSE_BURSTS.contains(&bits) => Self::Choose,
            bits => Self::Bits(bits),
        }
    }
}

impl Asked {
    /// The well-known plugin's rules, in its order.
    pub(super) fn check(self) -> Result<Self, BandwidthConfigError> {
        match (self.rate, self.burst) {
            (1.., Burst::Unset) => Err(BandwidthConfigError::RateWithoutBurst),
            _ => self.check_burst(),
        }
    }

    /// The same where a burst may be left out.
    pub(super) fn check_burst(self) -> Result<Self, BandwidthConfigError> {
        match (self.rate, self.burst) {
            (0, Burst::Choose | Burst::Bits(_)) => Err(BandwidthConfigError::BurstWithoutRate),
            (_, Burst::Bits(bits)) if bits / 8 >= BURST_END => {
                Err(BandwidthConfigError::BurstTooLarge)
            }
            _ => Ok(self),
        }
    }

    fn limit(
        self,
        direction: Direction,
        place: &Object<'_>,
    ) -> Result<Option<Limit>, BandwidthConfigError> {
        match self.rate {
            0 => Ok(None),
            rate @ 1..MIN_RATE => Err(BandwidthConfigError::RateTooSmall {
                field: place.path_of(rate_key(direction)),
                rate,
            }),
            rate => Ok(Some(Limit {
                rate: BitRate::from_bits_per_second(rate),
                burst: match self.burst {
                    Burst::Unset | Burst::Choose => None,
                    // Some bits are no bytes, but no burst at all is not what was asked for.
                    Burst::Bits(bits) => {
                        Some(ByteCount::from_bits(bits).max(ByteCount::from_bytes(1)))
                    }
                },
                latency: None,
            })),
        }
    }
}

/// True when the configuration itself holds limits: any of the four keys, whatever its value.
pub(super) fn is_static(config: &Object<'_>) -> bool {
    [Direction::Ingress, Direction::Egress]
        .into_iter()
        .any(|direction| config.has(rate_key(direction)) || config.has(burst_key(direction)))
}

/// The limits of an object with the four keys, checked as the well-known plugin does.
pub(super) fn read(object: &Object<'_>) -> Result<Limits, BandwidthConfigError> {
    let asked = |direction| {
        Ok(Asked {
            rate: object.unsigned(rate_key(direction))?,
            burst: Burst::from_bits(object.unsigned(burst_key(direction))?),
        })
    };
    // All of the types come before any of the rules, as if by a JSON decoder.
    let (ingress, egress) = (asked(Direction::Ingress)?, asked(Direction::Egress)?);
    to_limits(ingress.check()?, egress.check()?, object)
}

/// The limits of what was asked and checked; only a rate that the kernel cannot hold is an error.
pub(super) fn to_limits(
    ingress: Asked,
    egress: Asked,
    place: &Object<'_>,
) -> Result<Limits, BandwidthConfigError> {
    Ok(Limits {
        ingress: ingress.limit(Direction::Ingress, place)?,
        egress: egress.limit(Direction::Egress, place)?,
    })
}

/// The key of a direction's rate.
pub(super) const fn rate_key(direction: Direction) -> &'static str {
    match direction {
        Direction::Ingress => "ingressRate",
        Direction::Egress => "egressRate",
    }
}

/// The key of a direction's burst.
pub(super) const fn burst_key(direction: Direction) -> &'static str {
    match direction {
        Direction::Ingress => "ingressBurst",
        Direction::Egress => "egressBurst",
    }
}
