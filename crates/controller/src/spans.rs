//! What is to be seen in traces of what a replica does, and how it ended. The requests that it takes are
//! the client's own spans, below these.

use netqos_core::ObjectName;
pub(crate) use netqos_daemon::spans::{failed, many};
use tracing::Span;
use tracing::field::Empty;

/// A round in which slices are written.
pub(crate) fn slices(writes: usize) -> Span {
    tracing::info_span!(parent: None, "slices", netqos.writes = many(writes))
}

/// A round in which statuses of policies are looked at, and written where they differ.
pub(crate) fn statuses(due: usize) -> Span {
    tracing::info_span!(
        parent: None,
        "statuses",
        netqos.due = many(due),
        netqos.writes = Empty,
    )
}

/// A round in which NodeSLO objects are written.
pub(crate) fn node_slos(writes: usize) -> Span {
    tracing::info_span!(parent: None, "node SLOs", netqos.writes = many(writes))
}

/// The lease is renewed, or looked at.
pub(crate) fn lease(lease: &str, identity: &str) -> Span {
    tracing::info_span!(
        parent: None,
        "lease",
        netqos.lease = lease,
        netqos.identity = identity,
        netqos.leads = Empty,
        otel.status_code = Empty,
        otel.status_description = Empty,
    )
}

/// One object is written.
pub(crate) fn write(resource: &'static str, object: &ObjectName) -> Span {
    let span = tracing::info_span!(
        "write",
        netqos.resource = resource,
        netqos.object = &*object.name,
        k8s.namespace.name = Empty,
        otel.status_code = Empty,
        otel.status_description = Empty,
    );
    if !object.namespace.is_empty() {
        span.record("k8s.namespace.name", &*object.namespace);
    }
    span
}
