//! The differentiated services code point.

use std::fmt;

use serde::Serialize;

/// The six bits of RFC 2474 that tell the network how to treat a packet: 0 to 63. It is the upper
/// part of IPv4's TOS byte and of IPv6's traffic class; the two bits below are ECN's (RFC 3168).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Dscp(u8);

/// A number that is no code point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("dscp {0} is not between 0 and 63")]
pub struct NotADscp(pub i64);

impl Dscp {
    /// This code point, if it is one.
    pub fn try_new(value: i64) -> Result<Self, NotADscp> {
        u8::try_from(value)
            .ok()
            .filter(|value| *value < 64)
            .map(Self)
            .ok_or(NotADscp(value))
    }

    /// The number.
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl fmt::Display for Dscp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_bits() {
        assert_eq!(Dscp::try_new(63).map(Dscp::get), Ok(63));
        for wrong in [-1, 64, 256] {
            assert_eq!(Dscp::try_new(wrong), Err(NotADscp(wrong)));
        }
    }
}
