//! Limits and rates of rules, measured: the best of three tries counts.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod limits;
mod rates;
