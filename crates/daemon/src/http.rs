//! What every daemon answers over HTTP.

use axum::extract::RawQuery;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use crate::{Check, Logs, report};

/// The content type of OpenMetrics.
pub const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The answer to `/livez` or `/readyz`: 200 where all is well, else 503; with `?verbose` a line for each
/// check.
pub fn health(what: &str, checks: &[Check], query: &RawQuery) -> Response {
    let mut parts = query.0.as_deref().unwrap_or_default().split('&');
    let verbose = parts.any(|part| part == "verbose" || part.starts_with("verbose="));
    let (ok, body) = report(what, checks, verbose);
    let code = match ok {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    let kind = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
    (code, kind, body).into_response()
}

/// The answer to `/metrics`, in the form of OpenMetrics.
pub fn openmetrics(registry: &Registry) -> Response {
    let mut text = String::new();
    match encode(&mut text, registry) {
        Ok(()) => ([(header::CONTENT_TYPE, OPENMETRICS)], text).into_response(),
        Err(why) => {
            let text = format!("the metrics cannot be written: {why}\n");
            (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
        }
    }
}

/// The answer to `GET /loglevel`: how much is logged now.
pub fn level(logs: &Logs) -> String {
    format!("{}\n", logs.level())
}

/// The answer to `PUT /loglevel`, whose body says how much shall be logged from now on: the same as
/// [`level`]; 400 where it says nothing that can be followed.
pub fn set_level(logs: &Logs, level: &str) -> Response {
    match logs.set_level(level) {
        Ok(()) => {
            tracing::info!(level = level.trim(), "log level changed");
            self::level(logs).into_response()
        }
        Err(why) => {
            let text =
                format!("{why}: write trace, debug, info, warn, error, or parts with levels\n");
            (StatusCode::BAD_REQUEST, text).into_response()
        }
    }
}
