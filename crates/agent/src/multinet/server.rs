//! The socket of `netqos-multinet`.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use netqos_api::multinet::{Answer, MAX_BYTES, Message, PROTOCOL};
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::NetworkCatalog;

/// The longest time for a message and its answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The most connections at once. Others wait.
const CONNECTIONS: usize = 128;

/// The pause after a connection could not be accepted, such as for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// A message of any version.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

/// Answers the plugins that connect, for ever.
pub(crate) async fn serve(listener: UnixListener, catalog: NetworkCatalog) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    // A semaphore is closed by its owner only, which is this.
    while let Ok(place) = places.clone().acquire_owned().await {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!("cannot accept a connection of netqos-multinet: {error}");
                sleep(PAUSE).await;
                continue;
            }
        };
        let catalog = catalog.clone();
        tokio::spawn(async move {
            let _place = place;
            match timeout(PATIENCE, exchange(stream, &catalog)).await {
                Ok(Ok(())) => {}
                // It was killed, or lost its patience.
                Ok(Err(error)) => tracing::debug!("netqos-multinet has gone: {error}"),
                Err(_) => tracing::debug!("netqos-multinet sent no message within {PATIENCE:?}"),
            }
        });
    }
}

async fn exchange(mut stream: UnixStream, catalog: &NetworkCatalog) -> io::Result<()> {
    let (input, mut output) = stream.split();
    let mut line = Vec::new();
    let mut input = BufReader::new(input.take(MAX_BYTES));
    input.read_until(b'\n', &mut line).await?;
    let answer = answer(&line, catalog);
    if let Answer::Refused(why) | Answer::TryAgain(why) = &answer {
        tracing::info!("a pod is not attached: {why}");
    }
    let mut text = serde_json::to_vec(&answer)?;
    text.push(b'\n');
    output.write_all(&text).await
}

fn answer(line: &[u8], catalog: &NetworkCatalog) -> Answer {
    let version = serde_json::from_slice::<Versioned>(line).map(|it| it.version);
    match version {
        // Of another release, while one of both is updated.
        Ok(version) if version != PROTOCOL => Answer::TryAgain(format!(
            "the agent's protocol has version {PROTOCOL}, that of netqos-multinet version {version}; install the plugin of \
             the agent's release"
        )),
        _ => match serde_json::from_slice::<Message>(line) {
            Ok(message) => catalog.answer(&message),
            Err(error) => Answer::Refused(format!("cannot read the message: {error}")),
        },
    }
}
