//! What can be wrong with the plugin's configuration.

use crate::QuantityError;

/// Why the plugin's configuration cannot be followed.
///
/// The texts are those of the well-known plugin where it has one. It answers all of them with code
/// 999; in CNI's terms [`Type`](Self::Type) is a decoding failure (6), and the others are an
/// invalid network configuration (7).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BandwidthConfigError {
    /// A value of the wrong JSON type, or a number that is not whole, negative or too large.
    #[error(
        "failed to parse network configuration: json: cannot unmarshal {found} into field {field} \
         of type {expected}"
    )]
    Type {
        /// The field, with the names of the objects around it.
        field: String,
        /// What stands there.
        found: String,
        /// What should stand there.
        expected: &'static str,
    },
    /// A rate or burst of `trafficShaping` that is not a quantity.
    #[error("failed to parse network configuration: {field}: {value:?}: {problem}")]
    Quantity {
        /// The field, with the names of the objects around it.
        field: String,
        /// What stands there.
        value: String,
        /// What the parser says.
        problem: QuantityError,
    },
    /// A rate or burst of `trafficShaping` that is negative, or does not fit 64 bits of bits.
    #[error(
        "failed to parse network configuration: {field}: {value:?} is out of range: \
         it must be 0 (no limit) or more, and under 2^63 bits"
    )]
    OutOfRange {
        /// The field, with the names of the objects around it.
        field: String,
        /// What stands there.
        value: String,
    },
    /// A rate without a burst, where the burst is not optional.
    #[error("if rate is set, burst must also be set")]
    RateWithoutBurst,
    /// A burst without a rate.
    #[error("if burst is set, rate must also be set")]
    BurstWithoutRate,
    /// A burst of 2^32 − 1 bytes or more.
    #[error("burst cannot be more than 4GB")]
    BurstTooLarge,
    /// A rate under one byte per second.
    #[error(
        "{field}: {rate} bit/s is less than the kernel's token bucket can hold: \
         the smallest rate is 8 bit/s (0 is no limit)"
    )]
    RateTooSmall {
        /// The field, with the names of the objects around it.
        field: String,
        /// The rate, in bits per second.
        rate: u64,
    },
    /// A key of netqos' own, or a variable of the environment, with a value that does not exist.
    #[error("{key}: {value:?} is unknown; known are {known}")]
    UnknownValue {
        /// The key or the variable.
        key: String,
        /// Its value.
        value: String,
        /// What it may be.
        known: &'static str,
    },
}
