//! The CNI plugins as a runtime meets them.
#![allow(clippy::unwrap_used, clippy::expect_used)]
#![forbid(unsafe_code)]

mod bandwidth;
mod multinet;
