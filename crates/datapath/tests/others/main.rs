//! Rules, by tests that load no link.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod rules_failing;
mod rules_packets;
mod rules_services;
