//! The words that all of netqos speaks: units, identities, limits.
//!
//! ```text
//!   annotations ─┐
//!   CNI request ─┼──►  Limits { ingress, egress: Limit { rate, burst, latency } }
//!   (manifests) ─┘       of one Attachment { network, container, interface }
//! ```
//!
//! Everything in here is plain data that is right once it exists: what comes from outside is
//! parsed in `netqos-api` and `netqos-cni`, and what the kernel makes of it is decided in
//! `netqos-datapath`. No I/O, no clocks, no Kubernetes.
#![forbid(unsafe_code)]

mod identity;
mod limit;
mod units;

pub use identity::{Attachment, IdentityError};
pub use limit::{Direction, Limit, Limits};
pub use units::{BitRate, ByteCount};
