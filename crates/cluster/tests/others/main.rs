//! Watches of a real API server, by a proxy that records requests and injects faults.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]
#![forbid(unsafe_code)]

mod absent_kind;
mod fixture;
mod silent_server;
mod watch_timeout;
