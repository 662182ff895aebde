//! What is to be seen in traces of what is done to the kernel, and how it ended.

use netqos_core::ObjectRef;
use tracing::Span;
use tracing::field::Empty;

use super::site::Site;
use crate::Result;

/// An endpoint gets its rules.
pub(super) fn switch(object: &ObjectRef, site: &Site) -> Span {
    let span = tracing::info_span!(
        "switch",
        k8s.namespace.name = Empty,
        k8s.pod.name = Empty,
        netqos.interface = site.link,
        netqos.hook = ?site.hook,
        otel.status_code = Empty,
        otel.status_description = Empty,
    );
    name(&span, object);
    span
}

/// An endpoint has rules no more.
pub(super) fn unswitch(object: &ObjectRef) -> Span {
    let span = tracing::info_span!(
        "unswitch",
        k8s.namespace.name = Empty,
        k8s.pod.name = Empty,
        otel.status_code = Empty,
        otel.status_description = Empty,
    );
    name(&span, object);
    span
}

/// How something ended.
pub(super) fn ended<T>(span: &Span, how: Result<T>) -> Result<T> {
    if let Err(why) = &how {
        span.record("otel.status_code", "ERROR");
        span.record("otel.status_description", why.to_string());
    }
    how
}

fn name(span: &Span, object: &ObjectRef) {
    if let ObjectRef::Pod(pod) = object {
        span.record("k8s.namespace.name", &*pod.namespace);
        span.record("k8s.pod.name", &*pod.name);
    }
}
