//! The time, as metadata and headers have it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::fmt::rfc2822::DateTimePrinter;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// Now, to the second.
pub(crate) fn now() -> String {
    after(0)
}

/// Some seconds from now.
pub(crate) fn after(seconds: i64) -> String {
    match serde_json::to_value(Time(from_now(seconds))) {
        Ok(Value::String(text)) => text,
        _ => String::new(),
    }
}

/// Some seconds from now, as the header `Date` has it (RFC 9110, 5.6.7).
pub(crate) fn date(seconds: i64) -> String {
    let printer = DateTimePrinter::new();
    let text = printer.timestamp_to_rfc9110_string(&from_now(seconds));
    text.unwrap_or_default()
}

fn from_now(seconds: i64) -> Timestamp {
    let now = Timestamp::now();
    let then = now.checked_add(SignedDuration::from_secs(seconds));
    then.unwrap_or(now)
}
