//! What is to be seen of the agent, over HTTP.
//!
//! One thread with a runtime of its own. It never touches the kernel's tables: it asks the engine,
//! with patience that ends.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::{TcpListener, UnixListener};
use tokio::time::timeout;

use crate::engine::{Durations, Pulse};
use crate::event::{Event, Look};
use crate::multinet::MultinetCounts;
use crate::places::multinet_socket_path;
use crate::{Engine, Error, Logs, NetworkCatalog, Result, multinet, socket_path};

mod health;
mod metrics;
mod parts;

pub use metrics::metrics_sample;

/// How long the engine may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where to listen, and what to say there.
#[derive(Clone, Debug)]
pub struct Listen {
    /// The address of the endpoint for everybody; `None`: only the socket.
    pub address: Option<SocketAddr>,
    /// The run folder, in which the socket is.
    pub run: PathBuf,
    /// Whether metrics name pods.
    pub pod_labels: bool,
}

/// What requests are answered from.
#[derive(Clone)]
struct Desk {
    events: Sender<Event>,
    pulse: Arc<Pulse>,
    durations: Durations,
    multinet: Arc<MultinetCounts>,
    pod_labels: bool,
    logs: Logs,
}

/// All sockets, listened on.
#[derive(Debug)]
pub struct Bound {
    socket: UnixListener,
    multinet: UnixListener,
    address: Option<TcpListener>,
}

impl Listen {
    /// Listens. To be called inside of the runtime, by the holder of the agent's lock: a socket
    /// that is there already is of an agent that was killed.
    ///
    /// # Errors
    /// Somebody else has the address.
    pub async fn bind(&self) -> Result<Bound> {
        let bind = |path: PathBuf| {
            bind_socket(&path).map_err(|source| Error::Listen {
                address: path.display().to_string(),
                source,
            })
        };
        let socket = bind(socket_path(&self.run))?;
        let multinet = bind(multinet_socket_path(&self.run))?;
        let address = match self.address {
            None => None,
            Some(address) => {
                let bound = TcpListener::bind(address).await;
                Some(bound.map_err(|source| Error::Listen {
                    address: address.to_string(),
                    source,
                })?)
            }
        };
        Ok(Bound {
            socket,
            multinet,
            address,
        })
    }
}

fn bind_socket(path: &Path) -> io::Result<UnixListener> {
    match std::fs::remove_file(path) {
        Err(why) if why.kind() != io::ErrorKind::NotFound => return Err(why),
        _ => {}
    }
    let socket = UnixListener::bind(path)?;
    let only_root = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(path, only_root)?;
    Ok(socket)
}

/// Answers requests about this engine, for ever.
///
/// # Errors
/// Listening ended.
pub async fn serve(
    listen: &Listen,
    bound: Bound,
    engine: Seen,
    events: Sender<Event>,
    networks: NetworkCatalog,
    logs: Logs,
) -> io::Result<()> {
    let counts = networks.counts().clone();
    tokio::spawn(multinet::serve(bound.multinet, networks));
    let desk = Desk {
        events,
        pulse: engine.pulse,
        durations: engine.durations,
        multinet: counts,
        pod_labels: listen.pod_labels,
        logs,
    };
    let seen = Router::new()
        .route("/livez", get(health::livez))
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(metrics::metrics))
        .route("/debug/state", get(state))
        .route("/v1/status", get(status));
    // What changes the agent is only for who may open its socket.
    let all = seen.clone().route("/loglevel", get(level).put(set_level));
    let local = axum::serve(bound.socket, all.with_state(desk.clone()));
    match bound.address {
        None => local.await,
        Some(address) => {
            let public = axum::serve(address, seen.with_state(desk));
            tokio::select! {
                ended = local.into_future() => ended,
                ended = public.into_future() => ended,
            }
        }
    }
}

/// What is seen of an engine from outside of its thread.
#[derive(Clone, Debug)]
pub struct Seen {
    pulse: Arc<Pulse>,
    durations: Durations,
}

impl Engine {
    /// What the server needs of it.
    pub fn seen(&self) -> Seen {
        Seen {
            pulse: self.pulse(),
            durations: self.durations(),
        }
    }
}

impl Desk {
    /// What is seen of the engine, or why nothing is.
    async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Engine) -> T + Send + 'static,
    ) -> std::result::Result<T, Unanswered> {
        let (look, answered) = Look::new(look);
        self.events
            .send(Event::Look(look))
            .map_err(|_| Unanswered)?;
        match timeout(PATIENCE, answered).await {
            Ok(Ok(seen)) => Ok(seen),
            _ => Err(Unanswered),
        }
    }
}

/// The engine does not answer.
struct Unanswered;

impl IntoResponse for Unanswered {
    fn into_response(self) -> Response {
        let text = "the engine is busy and does not answer; /livez says for how long\n";
        (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
    }
}

async fn status(State(desk): State<Desk>) -> std::result::Result<Response, Unanswered> {
    Ok(json(desk.look(Engine::status).await?))
}

/// What shall be against what is.
async fn state(State(desk): State<Desk>) -> std::result::Result<Response, Unanswered> {
    Ok(json(desk.look(Engine::state).await?))
}

fn json(written: serde_json::Result<Vec<u8>>) -> Response {
    match written {
        Ok(text) => ([(header::CONTENT_TYPE, "application/json")], text).into_response(),
        Err(why) => {
            let text = format!("it cannot be written: {why}\n");
            (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
        }
    }
}

async fn level(State(desk): State<Desk>) -> String {
    netqos_daemon::level(&desk.logs)
}

async fn set_level(State(desk): State<Desk>, level: String) -> Response {
    netqos_daemon::set_level(&desk.logs, &level)
}
