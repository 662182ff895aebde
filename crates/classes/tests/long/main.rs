//! How exactly classes share an uplink, and how soon: measured, the best of three tries.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod kernel;
mod queue_length;
mod tc;
mod who_comes_gets_its_part;
