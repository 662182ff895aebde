//! Asking a running agent, through its socket.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::{Error, Result, Status, socket_path};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is in force, by the agent of this run folder.
///
/// # Errors
/// [`Error::NoAgent`] when none answers.
pub fn status(run: &Path) -> Result<Status> {
    let (code, body) = request(run, "GET", "/v1/status", "")?;
    if code != 200 {
        return Err(Error::Answer(format!("{code}: {}", body.trim())));
    }
    serde_json::from_str(&body).map_err(|why| Error::Answer(format!("no status: {why}")))
}

/// Sends a request of HTTP; the answer's code and body.
///
/// # Errors
/// [`Error::NoAgent`] when none answers.
pub fn request(run: &Path, method: &str, path: &str, body: &str) -> Result<(u16, String)> {
    let socket = socket_path(run);
    let failed = |source: io::Error| Error::NoAgent {
        path: socket.clone(),
        source,
    };
    let exchange = || {
        let mut stream = UnixStream::connect(&socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        // A server of 1.1 answers one of 1.0 in one piece, and closes.
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.0\r\nHost: netqos\r\nContent-Length: {length}\r\n\r\n{body}"
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    let answer = exchange().map_err(failed)?;
    let split = answer.split_once("\r\n\r\n");
    let code = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
    match (code, split) {
        (Some(code), Some((_, body))) => Ok((code, body.to_owned())),
        _ => Err(Error::Answer("what is no HTTP".to_owned())),
    }
}
