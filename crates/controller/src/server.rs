//! What is to be seen of the controller, over HTTP.

use std::io;
use std::time::Duration;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use netqos_daemon::{Check, report};
use tokio::net::TcpListener;
use tokio::sync::watch::{self, Receiver, Sender};
use tokio::time::Instant;

use crate::Metrics;

/// An engine that shows nothing for so long hangs: it looks twice a second, and no write takes longer.
const HANGS: Duration = Duration::from_secs(120);
const FORM: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// How the engine is.
#[derive(Clone, Debug)]
pub struct Health {
    /// When this was so.
    pub at: Instant,
    /// What was not listed yet.
    pub waiting: Option<String>,
    /// Whether it writes.
    pub leads: bool,
}

/// How the engine is, for the server.
#[derive(Clone, Debug)]
pub struct Seen {
    health: Receiver<Health>,
    metrics: Metrics,
}

impl Seen {
    /// And where the engine says how it is.
    pub fn new(metrics: Metrics) -> (Sender<Health>, Self) {
        let health = Health {
            at: Instant::now(),
            waiting: Some("everything".to_owned()),
            leads: false,
        };
        let (sender, health) = watch::channel(health);
        (sender, Self { health, metrics })
    }
}

/// Answers `/livez`, `/readyz` and `/metrics`, for ever.
///
/// # Errors
/// Listening ended.
pub async fn serve(listener: TcpListener, seen: Seen) -> io::Result<()> {
    let router = Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(seen);
    axum::serve(listener, router).await
}

async fn livez(State(seen): State<Seen>, query: RawQuery) -> Response {
    let silence = seen.health.borrow().at.elapsed();
    let check = Check {
        name: "engine".to_owned(),
        ok: silence < HANGS,
        message: format!("it has shown nothing for {} s", silence.as_secs()),
    };
    answer("livez", &[check], &query)
}

/// Ready: everything is known, so that it can take over at once. Whether it leads does not matter.
async fn readyz(State(seen): State<Seen>, query: RawQuery) -> Response {
    let health = seen.health.borrow().clone();
    let known = Check {
        name: "cluster".to_owned(),
        ok: health.waiting.is_none(),
        message: format!("not listed yet: {}", health.waiting.unwrap_or_default()),
    };
    let role = Check {
        name: if health.leads { "leader" } else { "standby" }.to_owned(),
        ok: true,
        message: String::new(),
    };
    answer("readyz", &[known, role], &query)
}

fn answer(what: &str, checks: &[Check], query: &RawQuery) -> Response {
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

async fn metrics(State(seen): State<Seen>) -> Response {
    match seen.metrics.text() {
        Ok(text) => ([(header::CONTENT_TYPE, FORM)], text).into_response(),
        Err(why) => {
            let text = format!("the metrics cannot be written: {why}\n");
            (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
        }
    }
}
