//! Whether the agent lives, and whether it is ready.

use std::time::Duration;

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;

use super::{Desk, Unanswered, is_verbose, text};
use crate::Check;

/// An engine that shows nothing for so long hangs.
const HANGS: Duration = Duration::from_secs(60);

/// Alive: the engine has shown that it works not long ago. Nothing is asked of it.
pub(super) async fn livez(State(desk): State<Desk>, query: RawQuery) -> Response {
    let silence = desk.pulse.silence();
    let check = Check {
        name: "engine".to_owned(),
        ok: silence < HANGS,
        message: format!("it has shown nothing for {} s", silence.as_secs()),
    };
    answer("livez", &[check], is_verbose(&query))
}

/// Ready: the sources were read, and the first plan was put in force.
pub(super) async fn readyz(
    State(desk): State<Desk>,
    query: RawQuery,
) -> std::result::Result<Response, Unanswered> {
    let checks = desk.ask().await?.status.checks;
    Ok(answer("readyz", &checks, is_verbose(&query)))
}

fn answer(what: &str, checks: &[Check], verbose: bool) -> Response {
    let (ok, body) = netqos_daemon::report(what, checks, verbose);
    let code = match ok {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    text(code, body)
}
