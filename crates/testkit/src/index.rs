//! What an index is given: objects in few words, and random ones.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "a panic is how a test fails"
)]

pub mod arbitrary;
pub mod objects;
