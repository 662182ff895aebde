//! What is to be seen of the engine's work in traces: where the time of a change went.
//!
//! ```text
//!   sync ─┬─ hear      what a source says, into the index
//!         ├─ plan      what has become of the plan
//!         ├─ rules     ─── switch, unswitch   of an endpoint
//!         ├─ limits    ─── hold, lift         of an interface
//!         └─ lines     ─── divide ─── line    on the thread that divides lines
//! ```
//!
//! Nothing here is worth anything where no trace is exported, and costs nothing there.

use netqos_core::{Attachment, ObjectName, PlanDelta};
use netqos_daemon::spans::many;
use netqos_index::Change;
use tracing::Span;
use tracing::field::Empty;

use crate::Batch;
use crate::event::Event;

/// How many policies a span names.
const NAMED: usize = 8;

/// The whole of what follows from what was heard, or from a failure (`again`).
pub(super) fn sync(heard: &[Event], again: bool) -> Span {
    let span = tracing::info_span!(
        parent: None,
        "sync",
        netqos.again = again,
        netqos.first = Empty,
        netqos.events = Empty,
        netqos.policies = Empty,
        netqos.problems = Empty,
        netqos.writes = Empty,
        otel.status_code = Empty,
    );
    if !span.is_disabled() {
        let batches = heard.iter().filter_map(|event| match event {
            Event::Batch(batch) => Some(batch),
            _ => None,
        });
        let names = batches.flat_map(policies).map(ToString::to_string);
        let names: Vec<String> = names.take(NAMED).collect();
        if !names.is_empty() {
            span.record("netqos.policies", names.join(","));
        }
        let news = heard.iter().filter(|event| event.is_news()).count();
        span.record("netqos.events", many(news));
    }
    span
}

/// That what a source says gets into the index.
pub(super) fn hear(batch: &Batch) -> Span {
    tracing::info_span!(
        "hear",
        netqos.source = batch.source,
        netqos.changes = many(batch.changes.len()),
    )
}

/// That it becomes a plan.
pub(super) fn plan() -> Span {
    tracing::info_span!(
        "plan",
        netqos.endpoints = Empty,
        netqos.chains = Empty,
        netqos.peers = Empty,
    )
}

/// How much of the plan became another one.
pub(super) fn planned(span: &Span, delta: &PlanDelta) {
    if !span.is_disabled() {
        span.record("netqos.endpoints", many(delta.endpoints.len()));
        span.record("netqos.chains", many(delta.chains.len()));
        span.record("netqos.peers", many(delta.peers.len()));
    }
}

/// What is done to a pod's interface for the sake of its limits. Its name has to be known when this is
/// compiled.
macro_rules! limit {
    ($name:literal, $pod:expr, $attachment:expr) => {
        tracing::info_span!(
            $name,
            k8s.namespace.name = &*$pod.namespace,
            k8s.pod.name = &*$pod.name,
            netqos.interface = $attachment.interface(),
            otel.status_code = Empty,
            otel.status_description = Empty,
        )
    };
}

/// An interface is held to its pod's limits.
pub(super) fn hold(pod: &ObjectName, attachment: &Attachment) -> Span {
    limit!("hold", pod, attachment)
}

/// It is held to them no more.
pub(super) fn lift(pod: &ObjectName, attachment: &Attachment) -> Span {
    limit!("lift", pod, attachment)
}

/// The policies that a source says something of.
fn policies(batch: &Batch) -> impl Iterator<Item = &ObjectName> {
    batch.changes.iter().filter_map(|change| match change {
        Change::Policy(policy) => Some(&policy.name),
        Change::PolicyGone(name) => Some(name),
        _ => None,
    })
}
