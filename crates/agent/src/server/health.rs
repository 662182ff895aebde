//! Whether the agent lives, and whether it is ready.

use std::time::Duration;

use axum::extract::{RawQuery, State};
use axum::response::Response;
use netqos_daemon::health;

use super::{Desk, Unanswered};
use crate::{Check, Engine};

/// An engine that shows nothing for so long hangs.
const HANGS: Duration = Duration::from_secs(60);

/// Alive: the engine has shown that it works not long ago. Nothing is asked of it.
pub(super) async fn livez(State(desk): State<Desk>, query: RawQuery) -> Response {
    let check = Check::engine(desk.pulse.silence(), HANGS);
    health("livez", &[check], &query)
}

/// Ready: the sources were read, and the first plan was put in force.
pub(super) async fn readyz(
    State(desk): State<Desk>,
    query: RawQuery,
) -> std::result::Result<Response, Unanswered> {
    let checks = desk.look(Engine::checks).await?;
    Ok(health("readyz", &checks, &query))
}
