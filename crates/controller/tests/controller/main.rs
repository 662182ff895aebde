//! `netqos-controller` as a process, and an API server: a real one where the environment names one
//! (see `netqos_apiserver::Cluster`), else that of the tests.

#![allow(clippy::unwrap_used, reason = "a test ends by it")]

mod admission;
mod leading;
mod peers;
mod requests;
mod statuses;
mod troubles;
mod world;
