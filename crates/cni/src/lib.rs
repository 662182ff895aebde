//! CNI 0.3.0 to 1.1.0, from both sides of the `exec`.
//!
//! ```text
//!   kubelet::Kubelet ─► runtime::Runtime ── exec, stdin, environment ──► plugin::run ─► impl Plugin
//!    pod annotations     list, capability                                 checks of       ADD DEL CHECK
//!    → capability args   args, cache, chain ◄─ result or error, stdout ── the skeleton    GC STATUS
//! ```
//!
//! - [`CniResult`], [`CniError`], [`CniVersion`]: what both sides say to each other.
//! - [`plugin`]: the skeleton of a plugin. It answers VERSION, checks the environment and the
//!   configuration as the well-known Go skeleton does, and prints results and errors in its form.
//! - `runtime` (feature `runtime`): loads network configuration lists and executes their plugins,
//!   with a result cache that libcni's tools read.
//! - `kubelet` (feature `runtime`): a pod's annotations become capability arguments of a list.
//!
//! Texts and codes of errors are those of the Go implementation (containernetworking/cni), since
//! people and programs look for them.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::print_stdout,
        clippy::print_stderr,
        reason = "the macros of std panic on a closed pipe and on a full disk"
    )
)]

mod error;
mod json;
#[cfg(feature = "runtime")]
pub mod kubelet;
mod names;
pub mod plugin;
mod prefix;
mod result;
#[cfg(feature = "runtime")]
pub mod runtime;
mod version;

pub use error::{CniError, ErrorCode};
pub use plugin::{GcRequest, NetConf, Plugin, Request, StatusRequest};
pub use prefix::{IpPrefix, PrefixError};
pub use result::{CniResult, Dns, Interface, IpConfig, ResultError, Route};
pub use version::{CniVersion, VersionError};
