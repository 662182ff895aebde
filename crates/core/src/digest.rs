//! Names for content.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use sha2::{Digest as _, Sha256};

/// The first 64 bits of the SHA-256 of something's JSON: the same content has the same digest in
/// every process, on every node and in every build of this version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(u64);

/// A text that is no digest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not 16 hexadecimal digits in lower case")]
pub struct NotADigest(pub String);

impl Digest {
    /// The digest of something that serialises to JSON; maps in it must be sorted.
    pub fn of(content: &impl Serialize) -> Self {
        let mut hasher = Sha256::new();
        // Plain data with string keys has a JSON form, and a hash takes all that is written to it.
        if serde_json::to_writer(Writer(&mut hasher), content).is_err() {
            debug_assert!(false, "content without a JSON form has no digest");
        }
        let hash = hasher.finalize();
        let mut first = [0; 8];
        first.copy_from_slice(&hash[..8]);
        Self(u64::from_be_bytes(first))
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The digest of this number, read back from where it was kept.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

impl fmt::Display for Digest {
    /// 16 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for Digest {
    type Err = NotADigest;

    /// As it is displayed, and in no other way.
    fn from_str(text: &str) -> Result<Self, NotADigest> {
        let wrong = || NotADigest(text.to_owned());
        let digits = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() != 16 || !text.bytes().all(digits) {
            return Err(wrong());
        }
        u64::from_str_radix(text, 16).map(Self).map_err(|_| wrong())
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

struct Writer<'h>(&'h mut Sha256);

impl std::io::Write for Writer<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_same_everywhere_and_differs_with_the_content() {
        let one = Digest::of(&["a", "b"]);
        // sha256 of `["a","b"]`, by sha256sum.
        assert_eq!(one.to_string(), "0473ef2dc0d324ab");
        assert_ne!(one, Digest::of(&["b", "a"]));
        assert_eq!(Digest::from_bits(one.get()), one);
    }

    #[test]
    fn it_is_read_as_it_is_written_and_in_no_other_way() {
        for digest in [Digest::of(&["a", "b"]), Digest(0), Digest(u64::MAX)] {
            assert_eq!(digest.to_string().parse(), Ok(digest));
        }
        for wrong in [
            "",
            "473ef2dc0d324ab",
            "+473ef2dc0d324ab",
            "0473EF2DC0D324AB",
        ] {
            assert_eq!(wrong.parse::<Digest>(), Err(NotADigest(wrong.to_owned())));
        }
    }
}
