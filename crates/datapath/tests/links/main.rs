//! Limits and rules on real links, in namespaces of the tests' own.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod limits;
mod rules;
