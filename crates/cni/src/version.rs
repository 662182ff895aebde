//! Versions of the CNI specification.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A version of the CNI specification, as `cniVersion` names it.
///
/// Any three numbers are a version and can be compared; which of them netqos speaks is another
/// question: [`CniVersion::SUPPORTED`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CniVersion {
    major: u32,
    minor: u32,
    patch: u32,
}

/// Why a text is not a version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VersionError {
    /// More than three numbers.
    #[error("invalid version {0:?}: too many parts")]
    TooManyParts(String),
    /// A part that is not a number.
    #[error("failed to convert {part} version part {text:?}: not a number that fits 32 bits")]
    NotANumber {
        /// Which of the three.
        part: &'static str,
        /// What stands there.
        text: String,
    },
}

impl CniVersion {
    /// What a document without a version is.
    pub const V0_1_0: Self = Self::new(0, 1, 0);
    /// The last whose results have `ip4` and `ip6`, which netqos neither takes of a plugin nor writes.
    pub const V0_2_0: Self = Self::new(0, 2, 0);
    /// The first with `interfaces` and `ips`.
    pub const V0_3_0: Self = Self::new(0, 3, 0);
    /// As 0.3.0, for results.
    pub const V0_3_1: Self = Self::new(0, 3, 1);
    /// The first with CHECK, and with `prevResult` in DEL.
    pub const V0_4_0: Self = Self::new(0, 4, 0);
    /// The first with network configuration lists only.
    pub const V1_0_0: Self = Self::new(1, 0, 0);
    /// The first with GC and STATUS.
    pub const V1_1_0: Self = Self::new(1, 1, 0);

    /// The newest that netqos speaks.
    pub const CURRENT: Self = Self::V1_1_0;

    /// What a plugin of netqos speaks, and whose results can be read and written.
    pub const SUPPORTED: [Self; 5] = [
        Self::V0_3_0,
        Self::V0_3_1,
        Self::V0_4_0,
        Self::V1_0_0,
        Self::V1_1_0,
    ];

    /// The version with these three numbers.
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self {
            major,
            minor,
            patch,
        }
    }

    /// The versions whose results have the same form as this one's: a `prevResult` must be of the
    /// family of its configuration. Empty for a version that is not [supported](Self::SUPPORTED).
    pub fn family(self) -> &'static [Self] {
        const FAMILIES: [&[CniVersion]; 2] = [
            &[CniVersion::V0_3_0, CniVersion::V0_3_1, CniVersion::V0_4_0],
            &[CniVersion::V1_0_0, CniVersion::V1_1_0],
        ];
        FAMILIES
            .into_iter()
            .find(|family| family.contains(&self))
            .unwrap_or_default()
    }
}

impl FromStr for CniVersion {
    type Err = VersionError;

    /// Reads one to three numbers; what is left out is 0. The empty text is 0.1.0, as the
    /// specification says.
    fn from_str(text: &str) -> Result<Self, VersionError> {
        if text.is_empty() {
            return Ok(Self::V0_1_0);
        }
        let mut numbers = [0; 3];
        let mut names = ["major", "minor", "micro"].into_iter();
        for (index, part) in text.split('.').enumerate() {
            let (Some(number), Some(name)) = (numbers.get_mut(index), names.next()) else {
                return Err(VersionError::TooManyParts(text.to_owned()));
            };
            *number = part.parse().map_err(|_| VersionError::NotANumber {
                part: name,
                text: part.to_owned(),
            })?;
        }
        let [major, minor, patch] = numbers;
        Ok(Self::new(major, minor, patch))
    }
}

impl fmt::Display for CniVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl fmt::Debug for CniVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for CniVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CniVersion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_and_is_not_a_version() {
        for (text, version) in [
            ("", Some(CniVersion::V0_1_0)),
            ("1.0.0", Some(CniVersion::V1_0_0)),
            ("1.1", Some(CniVersion::V1_1_0)),
            ("1", Some(CniVersion::V1_0_0)),
            ("1.0.0.0", None),
            ("1..0", None),
            ("v1.0.0", None),
            ("-1.0.0", None),
            ("4294967296.0.0", None),
        ] {
            assert_eq!(text.parse().ok(), version, "{text}");
        }
    }

    #[test]
    fn the_lists_are_in_order_and_in_families() {
        assert!(CniVersion::SUPPORTED.is_sorted());
        for version in CniVersion::SUPPORTED {
            assert!(version.family().contains(&version), "{version}");
        }
        for version in [CniVersion::V0_2_0, CniVersion::new(1, 2, 0)] {
            assert!(version.family().is_empty());
        }
    }

    proptest! {
        #[test]
        fn versions_round_trip(major: u32, minor: u32, patch: u32) {
            let version = CniVersion::new(major, minor, patch);
            prop_assert_eq!(version.to_string().parse(), Ok(version));
        }

        #[test]
        fn parsing_never_panics(text in "[0-9a-z.-]{0,20}|.{0,20}") {
            let _ = text.parse::<CniVersion>();
        }
    }
}
