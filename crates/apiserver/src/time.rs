//! The time, as metadata has it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// Now, to the second.
pub(crate) fn now() -> String {
    after(0)
}

/// Some seconds from now.
pub(crate) fn after(seconds: i64) -> String {
    let now = Timestamp::now();
    let then = now.checked_add(SignedDuration::from_secs(seconds));
    match serde_json::to_value(Time(then.unwrap_or(now))) {
        Ok(Value::String(text)) => text,
        _ => String::new(),
    }
}
