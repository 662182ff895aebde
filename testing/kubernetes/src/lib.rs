//! Real Kubernetes for tests: its programs, and API servers that are ready when a test begins.
//!
//! ```text
//!   Binaries ──► ApiServer (etcd, kube-apiserver) ──► pool ──► Lease of one test
//!     ▲                                                ▲            │ dropped
//!     └── environment, or testing/kubernetes/build     └── Baseline ◄┘ reset, verified
//! ```
//!
//! A program of tests starts its first server when its first test asks for one, and lends that server to one
//! test after the other. Between two tests [`Baseline`](baseline::Baseline) puts back what etcd held once the
//! server was ready. A server whose CRDs or admission configuration changed is replaced, since kube-apiserver
//! follows those with a delay, and so is one with thousands of new objects.
//!
//! Servers listen on the loopback of the network namespace of the process. A [`Relay`](relay::Relay) leads
//! there from a test's own namespace. Servers end with the process, however it ends; they write to mounts of
//! their own, so that nothing is left of them.
#![forbid(unsafe_code)]

mod baseline;
mod binaries;
pub mod cluster;
mod etcd;
mod host;
mod install;
mod keys;
mod pool;
mod process;
mod relay;
mod server;

pub use binaries::Binaries;
pub use etcd::{Etcd, Operation};
pub use install::Account;
pub use pool::Lease;
pub use server::ApiServer;
