//! Watches that are passed on, event by event, until they are interrupted.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use serde_json::json;
use tokio::sync::mpsc::{Sender, channel};
use tokio::sync::watch::Receiver;

use super::{Interruption, Shared};
use crate::body::{Body, Broken};
use crate::record::Entry;
use crate::status::Refusal;

/// The client is gone, or all has been said.
struct Over;

/// What is told of a watch that begins from what was forgotten.
pub(super) fn expired() -> Bytes {
    let status = Refusal::expired("too old resource version").status();
    format!("{}\n", json!({"type": "ERROR", "object": status})).into()
}

/// An event that says how far a watch has come. Clients do not look at its kind.
fn bookmark(version: u64) -> Bytes {
    let object = json!({
        "apiVersion": "v1", "kind": "Bookmark", "metadata": {"resourceVersion": version.to_string()},
    });
    format!("{}\n", json!({"type": "BOOKMARK", "object": object})).into()
}

/// Passes on what a watch tells, from when `known` was all that had interrupted.
pub(super) fn pass(
    shared: Arc<Shared>,
    body: kube::client::Body,
    interruptions: Receiver<Interruption>,
    known: Interruption,
    entry: Arc<Entry>,
) -> Body {
    let (out, parts) = channel(64);
    tokio::spawn(async move {
        // It ends by itself, or with its client.
        run(&shared, body, interruptions, known, &entry, out)
            .await
            .ok();
    });
    Body::Parts(parts)
}

async fn run(
    shared: &Shared,
    mut body: kube::client::Body,
    mut interruptions: Receiver<Interruption>,
    mut known: Interruption,
    entry: &Entry,
    out: Sender<Result<Bytes, Broken>>,
) -> Result<(), Over> {
    let send = async |part| out.send(part).await.map_err(|_| Over);
    // What has come of an event that is not whole.
    let mut begun = BytesMut::new();
    loop {
        tokio::select! {
            biased;
            changed = interruptions.changed() => {
                changed.map_err(|_| Over)?;
                let now = *interruptions.borrow_and_update();
                if now.broken != known.broken {
                    send(Err(Broken)).await?;
                } else if now.expired != known.expired {
                    send(Ok(expired())).await?;
                } else if now.silenced != known.silenced {
                    out.closed().await;
                } else {
                    if now.bookmarks != known.bookmarks {
                        known.bookmarks = now.bookmarks;
                        send(Ok(bookmark(now.bookmark_version))).await?;
                    }
                    if now.ended == known.ended {
                        continue;
                    }
                }
                return Ok(());
            }
            () = out.closed() => return Err(Over),
            frame = body.frame() => match frame {
                None => return Ok(()),
                Some(Err(_)) => return send(Err(Broken)).await,
                Some(Ok(frame)) => {
                    begun.extend_from_slice(frame.data_ref().map_or(&[], |data| &data[..]));
                    if let Some(end) = begun.iter().rposition(|byte| *byte == b'\n') {
                        let whole = begun.split_to(end + 1).freeze();
                        let whole = shared.rewrite(whole);
                        entry.sent(whole.len());
                        let events = whole.iter().filter(|byte| **byte == b'\n');
                        events.for_each(|_| entry.event());
                        send(Ok(whole)).await?;
                    }
                }
            },
        }
    }
}
