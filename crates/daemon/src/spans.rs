//! How spans of traces say numbers, and how their work ended: in the words of OpenTelemetry, whose fields
//! `otel.status_code` and `otel.status_description` a span has to be made with.

use std::fmt::Display;

use tracing::Span;

/// A number, as a trace has it.
#[must_use]
pub fn many(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// What a span is about has failed.
pub fn failed(span: &Span, why: impl Display) {
    if !span.is_disabled() {
        // In this order: a status that is no error has no description.
        span.record("otel.status_code", "ERROR");
        span.record("otel.status_description", why.to_string());
    }
}

/// Says of a span how its work ended, where it failed.
///
/// # Errors
///
/// None of its own: those of the work.
pub fn ended<T, E: Display>(span: &Span, how: Result<T, E>) -> Result<T, E> {
    how.inspect_err(|why| failed(span, why))
}
