//! Identities that are not twice the same.

use std::hash::{BuildHasher as _, RandomState};

/// A number that nobody can foresee, which is enough for a test.
fn number() -> u64 {
    RandomState::new().hash_one(0)
}

/// A `metadata.uid`.
pub(crate) fn uid() -> String {
    let (high, low) = (number(), number());
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xfff,
        low >> 48 & 0x3fff | 0x8000,
        low & 0xffff_ffff_ffff
    )
}

/// What `generateName` is completed with.
pub(crate) fn suffix() -> String {
    // Without vowels and what looks alike, as a server does.
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut number = number();
    let mut suffix = String::new();
    for _ in 0..5 {
        let index = (number % LETTERS.len() as u64) as usize;
        suffix.push(char::from(LETTERS[index]));
        number /= LETTERS.len() as u64;
    }
    suffix
}
