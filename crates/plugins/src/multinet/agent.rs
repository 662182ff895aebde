//! The agent, as the plugin asks it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use netqos_api::multinet::{About, Answer, MAX_BYTES, Message, PROTOCOL, PodName};
use netqos_cni::{CniError, ErrorCode};

/// The longest wait for an answer. The agent answers from memory, or after one request to the API server.
const PATIENCE: Duration = Duration::from_secs(10);

/// Asks the agent.
///
/// # Errors
/// Returns an error of code 11, for which runtimes try again, if the agent cannot be reached or does not know; and of code
/// 7 if it refuses.
pub fn ask(socket: &Path, pod: &PodName, about: About) -> Result<Answer, CniError> {
    let message = Message {
        version: PROTOCOL,
        pod: pod.clone(),
        about,
    };
    let away = |why: &dyn std::fmt::Display| {
        try_again(format!(
            "cannot ask netqos-agent at {}: {why}; does it run on this node?",
            socket.display()
        ))
    };
    match exchange(socket, &message).map_err(|why| away(&why))? {
        Answer::TryAgain(why) => Err(try_again(format!("netqos-agent: {why}"))),
        Answer::Refused(why) => Err(CniError::invalid_config(why)),
        answer => Ok(answer),
    }
}

/// An error for which the runtime tries again.
pub fn try_again(message: String) -> CniError {
    CniError::new(ErrorCode::TRY_AGAIN_LATER, message)
}

fn exchange(socket: &Path, message: &Message) -> std::io::Result<Answer> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    let mut answer = Vec::new();
    BufReader::new(stream.take(MAX_BYTES)).read_until(b'\n', &mut answer)?;
    Ok(serde_json::from_slice(&answer)?)
}
