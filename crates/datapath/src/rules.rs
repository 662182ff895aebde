//! The rules of a node's plan, put in force.
//!
//! ```text
//!  NodePlan ─► Tables (pure: bitmaps of rules per prefix, class, port) ─► maps of the program
//!     │
//!     ├─► Meter of each rule with a rate: limiter, and a veth pair that queues for it
//!     └─► Site of each endpoint: the hook on its interface, and the number that the hook gives
//! ```
//!
//! [`RuleDatapath`] is the way in. The first call of [`sync`](RuleDatapath::sync) reads what an
//! earlier process left, and makes of it what the plan says: what is right is not touched. After
//! that, [`apply`](RuleDatapath::apply) makes what changed, in an order in which a packet never
//! meets a rule list that is half made. Killed anywhere and repeated, it ends in the same state.
//! What a program may still read stays until [`finish`](RuleDatapath::finish).
//!
//! A rule that cannot be put in force never stops another: it is a [`Problem`] of the
//! [`Outcome`].

mod chains;
mod crowded;
mod endpoints;
mod engine;
mod inspect;
mod meters;
mod numbers;
mod peers;
mod prefixes;
mod problems;
mod purge;
mod rates;
mod retired;
mod services;
mod site;
mod strays;
mod tables;

use std::collections::BTreeMap;
use std::sync::Arc;

use netqos_core::plan::RuleId;
use netqos_core::{EndpointId, Problem};
use serde::{Serialize, Serializer};

use crate::HookKind;

pub use crowded::ServiceLimits;
pub use engine::RuleDatapath;
pub use meters::{MOST_RULE_LINKS, is_rule_link, usual_burst};
pub use purge::remove_all;

/// What is in force after a plan was applied, and what is not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// The endpoints whose rules are in force as the plan has them. What others had before stays in
    /// force.
    pub endpoints: Arc<BTreeMap<EndpointId, EndpointStatus>>,
    /// The meters that are in force.
    #[serde(serialize_with = "by_name")]
    pub meters: Arc<BTreeMap<RuleId, MeterStatus>>,
    /// The programs that were put back, in the course of an inspection.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub restored: Vec<Restored>,
    /// The number of queues that an inspection restored, or emptied because they had stalled.
    pub queues_restored: u64,
    /// What could not be made, or was made otherwise than asked for.
    pub problems: Vec<Problem>,
    /// What was written to the kernel to get there: 0 when all was right already.
    pub changes: u64,
    /// Packets in changed queues that were dropped because the queues could never send them, or because the transmit
    /// queue length of a link changed.
    pub dropped: u64,
}

/// Serializes keys as text, which JSON requires.
fn by_name<S: Serializer>(
    meters: &BTreeMap<RuleId, MeterStatus>,
    to: S,
) -> std::result::Result<S::Ok, S::Error> {
    to.collect_map(meters.iter().map(|(rule, meter)| (rule.to_string(), meter)))
}

/// How an endpoint's rules are in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointStatus {
    /// The interface that carries the hook: the host's end, or the pod's own.
    pub interface: String,
    /// How the program is attached.
    pub hook: HookKind,
    /// The number by which the program knows it.
    pub number: u16,
}

/// A program that was put back where it belongs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Restored {
    /// Whose rules it is for.
    pub endpoint: EndpointId,
    /// The interface that carries it.
    pub interface: String,
    /// True when it was not there any more; else somebody else's had come before it.
    pub was_gone: bool,
}

/// How a rule's rate is in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MeterStatus {
    /// Its limiter.
    pub limiter: u16,
    /// The interface that queues for it; `None`: excess is dropped at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Sustained, in bits per second.
    pub rate: netqos_core::BitRate,
    /// What may pass at line speed after a pause, in bytes, as it was chosen.
    pub burst: netqos_core::ByteCount,
}

/// What a rule did for an endpoint since it is in force there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleCount {
    /// The endpoint.
    pub endpoint: EndpointId,
    /// The rule.
    pub rule: RuleId,
    /// Packets that it won.
    pub packets: u64,
    /// Their bytes at layer 2.
    pub bytes: u64,
    /// Packets of them that it marked; in shadow mode, would have.
    pub marked: u64,
    /// Packets of them that it dropped; in shadow mode, would have.
    pub dropped_packets: u64,
    /// Their bytes at layer 2.
    pub dropped_bytes: u64,
}
