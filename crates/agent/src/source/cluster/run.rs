//! The cluster's thread.

use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::stream::{self, StreamExt as _};
use netqos_cluster::{Client, Selection, Told, watch};
use netqos_index::Change;
use tokio::time::{Instant, sleep_until};

use super::saved::Saved;
use super::seen::{Read, Seen};
use super::{ClusterOptions, SOURCE};
use crate::event::{Event, Said};
use crate::{Error, Result};

/// How long the server may take to tell everything before what was seen last counts.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long what was seen is only in memory.
const SAVE_AFTER: Duration = Duration::from_secs(5);
/// How much that comes together is one batch.
const MOST: usize = 1_000;

/// Sends what the cluster says, from now on, until nobody listens.
///
/// # Errors
/// Nothing says where its API server is, or with what to prove who one is. A server that does not
/// answer is none: it is waited for.
pub fn spawn(options: ClusterOptions, events: Sender<Event>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Error::Thread)?;
    let client = runtime.block_on(options.connect.client())?;
    let thread = thread::Builder::new().name("cluster".into());
    let run = move || runtime.block_on(run(&options, client, &events));
    thread.spawn(run).map_err(Error::Thread)?;
    Ok(())
}

async fn run(options: &ClusterOptions, client: Client, events: &Sender<Event>) {
    let watches = options.selections().into_iter().map(|selection| {
        let kind = selection.kind;
        let read = move |name: &_, value| Read::of(kind, name, value);
        let told = watch(client.clone(), &selection, read);
        told.map(move |told| (selection.clone(), told)).boxed()
    });
    let mut watches = stream::select_all(watches);
    let saved = Saved::new(&options.state);
    let mut source = Source {
        seen: Seen::new(options, saved.kinds()),
        saved,
        said: Said::default(),
        changes: Vec::new(),
    };
    let mut patience = Some(Instant::now() + PATIENCE);
    let mut save_at: Option<Instant> = None;
    loop {
        let far = Instant::now() + Duration::from_secs(3600);
        tokio::select! {
            Some((selection, told)) = watches.next() => {
                source.hear(&selection, told);
                for _ in 0..MOST {
                    let Some(Some((selection, told))) = watches.next().now_or_never() else {
                        break;
                    };
                    source.hear(&selection, told);
                }
                if source.seen.is_whole() {
                    patience = None;
                    save_at = save_at.or(Some(Instant::now() + SAVE_AFTER));
                }
            }
            () = sleep_until(patience.unwrap_or(far)), if patience.is_some() => {
                // Where nothing was written down, there is nothing but the server.
                let known = source.remember() && source.seen.knows_node();
                patience = (!known).then(|| Instant::now() + PATIENCE);
            }
            () = sleep_until(save_at.unwrap_or(far)), if save_at.is_some() => {
                save_at = None;
                if let Err(why) = source.saved.write(&source.seen) {
                    tracing::warn!("what the cluster says cannot be written down for after a reboot: {why}");
                    save_at = Some(Instant::now() + 12 * SAVE_AFTER);
                }
                continue;
            }
        }
        if source.tell(events, patience.is_none()).is_err() {
            return;
        }
    }
}

/// What was said, and what is to be said.
struct Source {
    seen: Seen,
    saved: Saved,
    said: Said,
    changes: Vec<Change>,
}

impl Source {
    fn hear(&mut self, selection: &Selection, told: Told<Read>) {
        if let Told::Silent(why) = &told {
            tracing::debug!(kind = %selection.kind, "the API server is silent: {why}");
        }
        let changes = self.seen.hear(selection, told);
        self.changes.extend(changes);
    }

    /// Falls back on what was seen last; false where there is nothing.
    fn remember(&mut self) -> bool {
        let (found, changes) = self.seen.remember(|kind| self.saved.read(kind));
        self.changes.extend(changes);
        found
    }

    /// Sends what there is to say, once everything is known.
    fn tell(&mut self, events: &Sender<Event>, is_known: bool) -> std::result::Result<(), ()> {
        let event = if is_known || self.said.anything() {
            let batch = self.seen.batch(std::mem::take(&mut self.changes));
            if !self.said.is_news(&batch) {
                return Ok(());
            }
            Event::Batch(batch)
        } else {
            Event::Waiting {
                source: SOURCE,
                why: self.seen.waiting(),
            }
        };
        events.send(event).map_err(drop)
    }
}
