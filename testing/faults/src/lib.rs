//! A proxy before a real API server, for tests: faults on demand and a record of every request.
//!
//! ```text
//!   client ──► Front: Call ──► Faults ──► Cluster: kube-apiserver, etcd
//!                │  ▲                        │
//!                │  └── watches, by events ◄─┘
//!                └────► Record
//! ```
//!
//! A [`Cluster`] is a real API server, which one test borrows. A [`Front`] before it serves on loopback, in the
//! network namespace of a test. [`Roles`] compares its record with the rules of RBAC.
#![forbid(unsafe_code)]

mod accept;
mod body;
mod call;
mod cluster;
mod faults;
mod faulty;
mod front;
mod listening;
mod query;
mod record;
mod roles;
mod status;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use cluster::{Cluster, without_rules};
pub use faults::{Fault, Gate};
pub use front::Front;
pub use netqos_kubernetes::Account;
pub use record::Request;
pub use roles::{Grant, Roles};

/// What a lock holds, also where a thread panicked with it.
fn locked<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}
