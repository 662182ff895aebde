//! Tests of the proxy: of faults on demand, and of the record.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod faults;
mod fixture;
mod front;
mod record;
