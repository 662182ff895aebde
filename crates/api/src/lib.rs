//! The outside documents that are not CRDs: quantities, annotations, CNI capability arguments,
//! Koordinator's ConfigMap and annotations, the Network Plumbing Working Group's network selections.
//!
//! ```text
//!   pod annotations ──► annotations::pod_limits ─────────────────┐
//!                                                                ▼
//!   the runtime's role:  Limits ──► capability::bandwidth_argument ──► runtimeConfig
//!                                                                │
//!   the plugin's role:   stdin JSON ──► BandwidthConfig ◄────────┘
//!                                        └─ Limits, egress way, hook, warnings
//! ```
//!
//! Users and runtimes write these documents; here they are read, checked, and turned into the
//! types of `netqos-core`. What is read here is right from then on. No I/O and no environment:
//! whoever calls hands in what it found.
#![forbid(unsafe_code)]

pub mod annotations;
pub mod bandwidth;
pub mod capability;
pub mod duration;
mod ifb;
pub mod koordinator;
pub mod multinet;
mod near;
pub mod npwg;
pub mod quantity;
mod rate_unit;
pub mod terway;

pub use annotations::{AnnotationError, ShapingExtras, pod_limits};
pub use bandwidth::{BandwidthConfig, BandwidthConfigError, EgressWay, Environment, HookChoice};
pub use duration::DurationError;
pub use ifb::{CALICO_IFB, calico_ifb_name, ifb_name};
pub use near::{distance, near};
pub use quantity::{Quantity, QuantityError};
pub use rate_unit::RateUnit;
