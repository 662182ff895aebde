//! What a Kubernetes API server says, for as long as it says it.
//!
//! ```text
//!   kubeconfig, or the pod's own ──connect──► Client
//!                                               │
//!   Selection { kind, namespace, labels, … } ───┴─watch──► Told: All, There, Gone … Silent
//! ```
//!
//! A watch begins with everything that there is ([`Told::All`]) and goes on with what becomes of it.
//! When the server's memory does not reach back far enough (410 Gone), everything is said again;
//! when it does not answer, that is said too ([`Told::Silent`]), it is asked again, later each time,
//! and what was told before still counts. An object is handed on as it came: one that nobody can
//! make sense of stops no watch.
#![forbid(unsafe_code)]

mod access;
mod annotate;
mod client;
mod connect;
mod fence;
mod kind;
mod lease;
mod object_version;
mod random;
mod raw;
mod read;
mod undeclared;
mod watch;
mod write;

pub use access::{Access, Version, may, now, version};
pub use annotate::{AnnotateError, annotate_pod};
pub use connect::{Connect, ConnectError};
pub use fence::{NotLeading, fence};
pub use kind::Kind;
pub use kube::Client;
pub use lease::lease;
pub use object_version::{ObjectVersion, is_outdated, require_absent};
pub use raw::Raw;
pub use read::{ReadError, Which, get, list, list_any};
pub use undeclared::Undeclared;
pub use watch::{Listing, Selection, Told, WatchLimits, watch, watch_within};
pub use write::{WriteError, apply, dry_run, is_undeclared};
