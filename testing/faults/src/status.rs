//! Answers of the proxy itself: refusals, as `metav1.Status`.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use serde_json::{Value, json};

use crate::body::Body;
use crate::record::Entry;

/// A refused request.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    code: u16,
    reason: &'static str,
    message: &'static str,
    /// Seconds.
    retry_after: Option<u64>,
}

impl Refusal {
    pub(crate) fn new(code: u16, reason: &'static str, message: &'static str) -> Self {
        Self {
            code,
            reason,
            message,
            retry_after: None,
        }
    }

    /// 410: the server no longer remembers the requested version.
    pub(crate) fn expired(message: &'static str) -> Self {
        Self::new(410, "Expired", message)
    }

    /// The same with `Retry-After`.
    pub(crate) fn retry_after(self, seconds: Option<u64>) -> Self {
        Self {
            retry_after: seconds,
            ..self
        }
    }

    /// The document.
    pub(crate) fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        });
        if let Some(seconds) = self.retry_after {
            status["details"] = json!({"retryAfterSeconds": seconds});
        }
        status
    }

    /// The answer.
    pub(crate) fn respond(&self, entry: &Entry) -> Response<Body> {
        let mut response = respond(self.code, self.status().to_string().into(), entry);
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}

/// An answer in JSON.
pub(crate) fn respond(code: u16, body: Bytes, entry: &Entry) -> Response<Body> {
    entry.sent(body.len());
    entry.answered(code);
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or_default();
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}
