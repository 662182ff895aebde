//! The differentiated services code point of a packet.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Names that have a document behind them: RFC 2474 (CS), 2597 (AF), 3246 (EF), 5865 (VA), 8622 (LE).
const NAMES: [(&str, u8); 23] = [
    ("CS0", 0),
    ("LE", 1),
    ("CS1", 8),
    ("AF11", 10),
    ("AF12", 12),
    ("AF13", 14),
    ("CS2", 16),
    ("AF21", 18),
    ("AF22", 20),
    ("AF23", 22),
    ("CS3", 24),
    ("AF31", 26),
    ("AF32", 28),
    ("AF33", 30),
    ("CS4", 32),
    ("AF41", 34),
    ("AF42", 36),
    ("AF43", 38),
    ("CS5", 40),
    ("VA", 44),
    ("EF", 46),
    ("CS6", 48),
    ("CS7", 56),
];

/// A code point, 0 to 63: the upper six bits of the IPv4 TOS byte and of the IPv6 traffic class.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(try_from = "u8", into = "u8")]
pub struct Dscp(u8);

/// Why a number or a text is not a code point.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DscpError {
    /// A number above 63.
    #[error("{0} is not a DSCP: the largest is 63")]
    TooLarge(u8),
    /// Neither a number nor a name.
    #[error("{0:?} is not a DSCP: write a number from 0 to 63, or a name like EF, AF41, CS6")]
    Unknown(String),
}

impl Dscp {
    /// The code point of this number.
    pub const fn try_new(value: u8) -> Result<Self, DscpError> {
        if value > 63 {
            return Err(DscpError::TooLarge(value));
        }
        Ok(Self(value))
    }

    /// The code point in a TOS byte or traffic class; the two ECN bits are dropped.
    pub const fn from_tos(tos: u8) -> Self {
        Self(tos >> 2)
    }

    /// The number.
    pub const fn value(self) -> u8 {
        self.0
    }

    /// The TOS byte or traffic class with this code point, and no ECN.
    pub const fn tos(self) -> u8 {
        self.0 << 2
    }

    /// Its name, if it has one.
    pub fn name(self) -> Option<&'static str> {
        NAMES
            .iter()
            .find(|(_, value)| *value == self.0)
            .map(|(name, _)| *name)
    }
}

impl fmt::Display for Dscp {
    /// `EF (46)`, or the number alone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} ({})", self.0),
            None => write!(f, "{}", self.0),
        }
    }
}

impl FromStr for Dscp {
    type Err = DscpError;

    /// Reads a number, or a name in any case; `BE` and `DF` are zero, too.
    fn from_str(text: &str) -> Result<Self, DscpError> {
        if let Ok(value) = text.parse::<u8>() {
            return Self::try_new(value);
        }
        if text.eq_ignore_ascii_case("BE") || text.eq_ignore_ascii_case("DF") {
            return Ok(Self(0));
        }
        NAMES
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(text))
            .map(|(_, value)| Self(*value))
            .ok_or_else(|| DscpError::Unknown(text.to_owned()))
    }
}

impl TryFrom<u8> for Dscp {
    type Error = DscpError;

    fn try_from(value: u8) -> Result<Self, DscpError> {
        Self::try_new(value)
    }
}

impl From<Dscp> for u8 {
    fn from(dscp: Dscp) -> Self {
        dscp.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_and_is_not_a_code_point() {
        for (text, value) in [
            ("46", Some(46)),
            ("ef", Some(46)),
            ("AF41", Some(34)),
            ("be", Some(0)),
            ("63", Some(63)),
            ("64", None),
            ("-1", None),
            ("AF5", None),
            ("", None),
        ] {
            assert_eq!(text.parse().ok().map(Dscp::value), value, "{text}");
        }
    }

    proptest! {
        #[test]
        fn the_tos_byte_round_trips(value in 0_u8..=63, ecn in 0_u8..=3) {
            let dscp = Dscp::try_new(value).unwrap();
            prop_assert_eq!(Dscp::from_tos(dscp.tos() | ecn), dscp);
            if let Some(name) = dscp.name() {
                prop_assert_eq!(name.parse(), Ok(dscp));
            }
        }

        #[test]
        fn parsing_never_panics(text in ".{0,12}") {
            let _ = text.parse::<Dscp>();
        }
    }
}
