//! Who has which part of the node's lines: from objects to a plan that a backend puts in force.
//!
//! ```text
//!   NodeSLO, or ConfigMap and Node ─┐
//!   pods: labels, annotations ──────┴─► ClassInput ─► Knowledge: what is right, or was last
//!   another agent's files ────────────► NetFiles ────────┘ │
//!   default routes, speeds ─► Lines ───────────────────────┤
//!   whereabouts, cgroups ─► Place ─────────────────────────┴─► plan ─► ClassPlan ─► Divider
//! ```
//!
//! Here, and only here, what was right before counts where what is said now is wrong, or is not said
//! any more: a line must not lose its guarantees by a slip of the pen.

mod backend;
mod cards;
#[cfg(feature = "daemon")]
mod counters;
#[cfg(feature = "daemon")]
mod default_uplinks;
#[cfg(feature = "daemon")]
mod divider;
mod filed;
#[cfg(feature = "daemon")]
mod host_links;
mod input;
mod knowledge;
#[cfg(feature = "daemon")]
mod lines;
mod plan;
mod recorded;
#[cfg(test)]
mod tests;
mod told;

#[cfg(feature = "daemon")]
pub(crate) use backend::class_backend_as;
pub use backend::{
    CGROUPS, DEFAULT_CLASS_BACKEND, backend_record, class_backend, recorded_backend,
};
pub use cards::kept_total_problem;
#[cfg(feature = "daemon")]
pub(crate) use counters::Counters;
#[cfg(feature = "daemon")]
pub use divider::Shown;
#[cfg(feature = "daemon")]
pub(crate) use divider::{Divider, Order};
pub use filed::{NODE_FILE, NetFiles, PODS_FILE, Word};
#[cfg(feature = "daemon")]
pub(crate) use host_links::HostLinks;
pub(crate) use input::concerns;
pub use input::{ClassInput, InputPod, stated_place};
pub use knowledge::Knowledge;
#[cfg(feature = "daemon")]
pub(crate) use lines::Lines;
pub use plan::{Division, KnownPod, plan};
pub use recorded::{Recorded, Source};
pub use told::told;
