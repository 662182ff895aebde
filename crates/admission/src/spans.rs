//! What is to be seen in traces of what API servers ask: as part of their own traces, where they have
//! any.

use axum::http::HeaderMap;
use kube::core::admission::{AdmissionResponse, Operation};
use netqos_daemon::Origin;
use netqos_daemon::spans::many;
use tracing::Span;
use tracing::field::Empty;

use crate::Request;

/// The span of a question. Its name has to be known when this is compiled.
macro_rules! question {
    ($name:literal, $headers:expr) => {{
        let span = tracing::info_span!(
            parent: None,
            $name,
            otel.kind = "server",
            otel.status_code = Empty,
            netqos.kind = Empty,
            netqos.object = Empty,
            netqos.operation = Empty,
            netqos.allowed = Empty,
            netqos.warnings = Empty,
            k8s.namespace.name = Empty,
        );
        asked_from($headers, &span);
        span
    }};
}

/// Somebody asks whether an object may be written.
pub(crate) fn validate(headers: &HeaderMap) -> Span {
    question!("validate", headers)
}

/// Somebody asks what is to be filled in of an object.
pub(crate) fn mutate(headers: &HeaderMap) -> Span {
    question!("mutate", headers)
}

/// What was asked, and answered. That an object is refused is no failure of ours.
pub(crate) fn answered(span: &Span, request: &Request, response: &AdmissionResponse) {
    if span.is_disabled() {
        return;
    }
    span.record("netqos.kind", &*request.kind.kind);
    span.record("netqos.object", &*request.name);
    span.record(
        "netqos.operation",
        match request.operation {
            Operation::Create => "create",
            Operation::Update => "update",
            Operation::Delete => "delete",
            Operation::Connect => "connect",
        },
    );
    span.record("netqos.allowed", response.allowed);
    let warnings = response.warnings.as_ref().map_or(0, Vec::len);
    span.record("netqos.warnings", many(warnings));
    if let Some(namespace) = request.namespace.as_deref() {
        span.record("k8s.namespace.name", namespace);
    }
}

fn asked_from(headers: &HeaderMap, span: &Span) {
    if !span.is_disabled() {
        let header = |name| headers.get(name).and_then(|it| it.to_str().ok());
        Origin::sent(header("traceparent"), header("tracestate")).begets(span);
    }
}
