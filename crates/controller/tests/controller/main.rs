//! `netqos-controller` as a process, and an API server: a real one where the environment names one
//! (see `netqos_apiserver::Cluster`), else that of the tests.

mod admission;
mod leading;
mod peers;
mod requests;
mod statuses;
mod troubles;
mod world;
