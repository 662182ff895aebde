//! Watches: what happens, as it happens.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use tokio::sync::mpsc::{Sender, channel};
use tokio::time::{Instant, sleep_until};

use super::Body;
use super::answer::Reply;
use super::body::Broken;
use crate::call::{Call, Target};
use crate::list::{is_named, select, selector};
use crate::record::Entry;
use crate::resource::Resource;
use crate::selectors::Selector;
use crate::shared::Shared;
use crate::status::Refusal;
use crate::store::{Change, ChangeKind, Stored};
use crate::view::View;

/// How long before its end a watch says how far it got.
const BEFORE_END: Duration = Duration::from_secs(2);
/// A moment that does not come.
const NEVER: Duration = Duration::from_secs(86400 * 365);

struct Watch {
    shared: Arc<Shared>,
    resource: Arc<Resource>,
    target: Target,
    selector: Selector,
    view: View,
    /// How far it got.
    position: u64,
    bookmarks: bool,
    deadline: Instant,
    entry: Arc<Entry>,
    out: Sender<Result<Bytes, Broken>>,
}

/// The client is gone, or all has been said.
struct Over;

/// Starts a watch.
pub(super) fn watch(
    shared: &Arc<Shared>,
    call: &Call,
    target: &Target,
    resource: &Arc<Resource>,
    entry: &Arc<Entry>,
) -> Result<Reply, Refusal> {
    let query = &call.query;
    let view = View::of(call)?;
    let selector = selector(call, resource)?;
    let from = query.text("resourceVersion");
    let from: u64 = match from {
        "" => 0,
        text => text
            .parse()
            .map_err(|_| Refusal::bad_request(format!("invalid resource version {text:?}")))?,
    };
    let initial = query.flag("sendInitialEvents");
    if initial && query.get("resourceVersionMatch") != Some("NotOlderThan") {
        let message = "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: \
                       sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        return Err(Refusal::new(422, "Invalid", message));
    }
    let timeout = query
        .number("timeoutSeconds")
        .filter(|seconds| *seconds > 0);
    let timeout = timeout.map_or(NEVER, Duration::from_secs);
    let (out, parts) = channel(64);
    let watch = Watch {
        shared: shared.clone(),
        resource: resource.clone(),
        target: target.clone(),
        selector,
        view,
        position: from,
        bookmarks: query.flag("allowWatchBookmarks"),
        deadline: Instant::now() + timeout,
        entry: entry.clone(),
        out,
    };
    let from_now = initial || from == 0;
    tokio::spawn(async move {
        // It ends by itself, or with its client.
        watch.run(from_now, initial).await.ok();
    });
    Ok(Reply::new(200, Body::Parts(parts)))
}

impl Watch {
    async fn run(mut self, from_now: bool, streaming: bool) -> Result<(), Over> {
        let mut revisions = self.shared.revision.subscribe();
        if from_now {
            self.send_present(streaming).await?;
        }
        let mut next_bookmark = Instant::now() + self.shared.bookmarks;
        let mut last_bookmark = self.deadline.checked_sub(BEFORE_END);
        loop {
            revisions.borrow_and_update();
            self.send_changes().await?;
            let last = last_bookmark.unwrap_or(self.deadline).max(Instant::now());
            tokio::select! {
                biased;
                () = self.out.closed() => return Err(Over),
                changed = revisions.changed() => changed.map_err(|_| Over)?,
                () = sleep_until(next_bookmark), if self.bookmarks => {
                    self.send_bookmark(false).await?;
                    next_bookmark = Instant::now() + self.shared.bookmarks;
                }
                () = sleep_until(last), if self.bookmarks && last_bookmark.is_some() => {
                    self.send_bookmark(false).await?;
                    last_bookmark = None;
                }
                () = sleep_until(self.deadline) => return Err(Over),
            }
        }
    }

    /// What is there now, as if it were new.
    async fn send_present(&mut self, streaming: bool) -> Result<(), Over> {
        let objects = {
            let state = self.shared.read();
            self.position = state.store.revision();
            select(&state, &self.resource, &self.target, &self.selector)
        };
        for object in objects {
            self.send_event("ADDED", &object).await?;
        }
        if streaming && self.bookmarks {
            self.send_bookmark(true).await?;
        }
        Ok(())
    }

    /// What happened since.
    async fn send_changes(&mut self) -> Result<(), Over> {
        let (changes, revision) = {
            let state = self.shared.read();
            let changes = state.store.since(&self.resource.storage, self.position);
            (changes, state.store.revision())
        };
        let changes = match changes {
            Ok(changes) => changes,
            Err(too_old) => {
                let message = format!(
                    "too old resource version: {} ({})",
                    self.position, too_old.oldest
                );
                let status = Refusal::expired(message).status();
                let event = json!({"type": "ERROR", "object": status});
                self.send(format!("{event}\n").into()).await?;
                return Err(Over);
            }
        };
        for change in changes {
            if let Some(kind) = self.seen_as(&change) {
                self.send_event(kind, &change.object).await?;
            }
        }
        self.position = self.position.max(revision);
        Ok(())
    }

    /// What a change is to a watch that sees a part of the objects: what comes into that part is
    /// new, what leaves it is gone.
    fn seen_as(&self, change: &Change) -> Option<&'static str> {
        let fits =
            |object: &Stored| is_named(object, &self.target) && self.selector.matches(object);
        let was = change.previous.as_deref().is_some_and(fits);
        let is = change.kind != ChangeKind::Deleted && fits(&change.object);
        match (was, is) {
            (false, true) => Some("ADDED"),
            (true, true) => Some("MODIFIED"),
            (true, false) => Some("DELETED"),
            (false, false) => None,
        }
    }

    async fn send_event(&self, kind: &str, object: &Stored) -> Result<(), Over> {
        let object = self.view.object(&self.resource, object);
        let head = format!("{{\"type\":\"{kind}\",\"object\":");
        self.send([head.as_bytes(), &object, b"}\n"].concat().into())
            .await
    }

    async fn send_bookmark(&self, initial: bool) -> Result<(), Over> {
        let bookmark = self.view.bookmark(&self.resource, self.position, initial);
        self.send(format!("{bookmark}\n").into()).await
    }

    async fn send(&self, event: Bytes) -> Result<(), Over> {
        let length = event.len();
        self.out.send(Ok(event)).await.map_err(|_| Over)?;
        self.entry.sent(length);
        self.entry.event();
        Ok(())
    }
}
