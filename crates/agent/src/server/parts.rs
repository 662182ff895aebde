//! Metrics, written while they are sent: of a large node they are many megabytes, of which no more is
//! held than a few parts.

use std::convert::Infallible;
use std::fmt;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use netqos_daemon::OPENMETRICS;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{Sender, channel};
use tokio::time::timeout;

/// How large a part is, and how many may wait for whoever reads.
const PART: usize = 64 << 10;
const WAITING: usize = 2;
/// Who takes no part for so long is not sent the rest.
const PATIENCE: Duration = Duration::from_secs(10);

/// The answer to `/metrics`, in the form of OpenMetrics.
pub(super) fn openmetrics(registry: Registry) -> Response {
    let (sender, receiver) = channel(WAITING);
    let runtime = Handle::current();
    tokio::task::spawn_blocking(move || {
        let mut parts = Parts {
            sender,
            runtime,
            part: String::with_capacity(PART),
        };
        // Who has gone, or takes nothing, gets an answer that breaks off before its `# EOF`.
        let sent = encode(&mut parts, &registry).and_then(|()| parts.send());
        if sent.is_err() {
            tracing::debug!("somebody did not take all metrics");
        }
    });
    let parts = stream::unfold(receiver, |mut receiver| async {
        let part = receiver.recv().await?;
        Some((Ok::<Bytes, Infallible>(part), receiver))
    });
    let kind = [(header::CONTENT_TYPE, OPENMETRICS)];
    (kind, Body::from_stream(parts)).into_response()
}

/// What is written, on its way to whoever reads it.
struct Parts {
    sender: Sender<Bytes>,
    runtime: Handle,
    part: String,
}

impl Parts {
    fn send(&mut self) -> fmt::Result {
        let part = std::mem::replace(&mut self.part, String::with_capacity(PART));
        let sending = timeout(PATIENCE, self.sender.send(part.into()));
        match self.runtime.block_on(sending) {
            Ok(Ok(())) => Ok(()),
            _ => Err(fmt::Error),
        }
    }
}

impl fmt::Write for Parts {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.part.len() + text.len() > PART {
            self.send()?;
        }
        self.part.push_str(text);
        Ok(())
    }
}
