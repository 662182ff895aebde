//! What is to be seen of the controller, over HTTP.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::extract::{ConnectInfo, RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use netqos_admission::Readiness;
use netqos_daemon::{Check, Logs, health, level, openmetrics, set_level};
use tokio::net::TcpListener;
use tokio::sync::watch::{self, Receiver, Sender};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout};

use crate::Metrics;
use crate::debug::Question;

/// An engine that shows nothing for so long hangs: it looks twice a second, and no write takes longer.
const HANGS: Duration = Duration::from_secs(120);

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

/// Where an engine says how it is, and is asked.
#[derive(Debug)]
pub struct Desk {
    pub(crate) health: Sender<Health>,
    pub(crate) questions: mpsc::Receiver<Question>,
}

/// How long an engine may take to answer: it may be writing.
const PATIENCE: Duration = Duration::from_secs(15);

/// How the controller is, for the server.
#[derive(Clone, Debug)]
pub struct Seen {
    health: Receiver<Health>,
    engine: mpsc::Sender<Question>,
    metrics: Metrics,
    webhook: Option<Readiness>,
    logs: Logs,
}

impl Seen {
    /// And where the engine says how it is. `webhook` is that of this process, if it serves one.
    pub fn new(metrics: Metrics, webhook: Option<Readiness>, logs: Logs) -> (Desk, Self) {
        let health = Health {
            at: Instant::now(),
            waiting: Some("everything".to_owned()),
            leads: false,
        };
        let (sender, health) = watch::channel(health);
        let (engine, questions) = mpsc::channel(1);
        let seen = Self {
            health,
            engine,
            metrics,
            webhook,
            logs,
        };
        let desk = Desk {
            health: sender,
            questions,
        };
        (desk, seen)
    }
}

/// Answers `/livez`, `/readyz` and `/metrics`, and to who is on the same machine, or forwards a port
/// to the pod, `/loglevel` and `/debug/state`; for ever.
///
/// # Errors
/// Listening ended.
pub async fn serve(listener: TcpListener, seen: Seen) -> io::Result<()> {
    let router = Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route("/loglevel", get(log_level).put(set_log_level))
        .route("/debug/state", get(state))
        .with_state(seen);
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, service).await
}

async fn livez(State(seen): State<Seen>, query: RawQuery) -> Response {
    let silence = seen.health.borrow().at.elapsed();
    health("livez", &[Check::engine(silence, HANGS)], &query)
}

/// Ready: everything is known, so that it can take over at once, and its webhook can be asked. Whether
/// it leads does not matter.
async fn readyz(State(seen): State<Seen>, query: RawQuery) -> Response {
    let now = seen.health.borrow().clone();
    let known = Check {
        name: "cluster".to_owned(),
        ok: now.waiting.is_none(),
        message: format!("not listed yet: {}", now.waiting.unwrap_or_default()),
    };
    let role = Check {
        name: if now.leads { "leader" } else { "standby" }.to_owned(),
        ok: true,
        message: String::new(),
    };
    let webhook = seen.webhook.map(|webhook| {
        let lacks = webhook.lacks();
        Check {
            name: "webhook".to_owned(),
            ok: lacks.is_none(),
            message: lacks.unwrap_or_default(),
        }
    });
    let checks: Vec<Check> = [known, role].into_iter().chain(webhook).collect();
    health("readyz", &checks, &query)
}

async fn metrics(State(seen): State<Seen>) -> Response {
    seen.metrics.with_registry(openmetrics)
}

async fn log_level(State(seen): State<Seen>, from: ConnectInfo<SocketAddr>) -> Response {
    match is_near(from) {
        true => level(&seen.logs).into_response(),
        false => far(),
    }
}

async fn set_log_level(
    State(seen): State<Seen>,
    from: ConnectInfo<SocketAddr>,
    level: String,
) -> Response {
    match is_near(from) {
        true => set_level(&seen.logs, &level),
        false => far(),
    }
}

/// What is wanted, against what is there: names and addresses of pods, which not everybody may see.
async fn state(State(seen): State<Seen>, from: ConnectInfo<SocketAddr>) -> Response {
    if !is_near(from) {
        return far();
    }
    let asked = async {
        let (question, answer) = oneshot::channel();
        seen.engine.send(question).await.ok()?;
        answer.await.ok()
    };
    match timeout(PATIENCE, asked).await {
        Ok(Some(state)) => Json(state).into_response(),
        _ => (StatusCode::SERVICE_UNAVAILABLE, "the engine is busy\n").into_response(),
    }
}

/// Whether who asks may change the controller, and see all of it: whoever may forward a port to its pod comes from the
/// pod itself, whoever merely reaches its address does not.
fn is_near(ConnectInfo(from): ConnectInfo<SocketAddr>) -> bool {
    from.ip().to_canonical().is_loopback()
}

fn far() -> Response {
    let text = "only from 127.0.0.1 and ::1: kubectl port-forward gets there\n";
    (StatusCode::FORBIDDEN, text).into_response()
}
