//! The watches of an agent, which begin and end.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::stream::{AbortHandle, BoxStream, SelectAll, StreamExt as _, abortable};
use netqos_cluster::{Client, Listing, Selection, Told, watch};
use netqos_coexistence::Homes;

use super::seen::Read;

/// What the watches tell, one after the other.
pub(super) struct Watches {
    client: Client,
    homes: Arc<Homes>,
    streams: SelectAll<BoxStream<'static, (Selection, Told<Read>)>>,
    live: BTreeMap<Selection, AbortHandle>,
}

impl Watches {
    /// None yet.
    pub(super) fn new(client: Client, homes: Arc<Homes>) -> Self {
        Self {
            client,
            homes,
            streams: SelectAll::new(),
            live: BTreeMap::new(),
        }
    }

    /// Begins a watch, if it is none of those that there are.
    pub(super) fn begin(&mut self, selection: Selection) {
        let kind = selection.kind;
        let homes = self.homes.clone();
        let read = move |name: &_, value| Read::of(kind, name, value, &homes);
        let told = watch(self.client.clone(), &selection, Listing::Cached, read);
        let of = selection.clone();
        let (told, handle) = abortable(told.map(move |told| (of.clone(), told)));
        if let Some(before) = self.live.insert(selection, handle) {
            before.abort();
        }
        self.streams.push(told.boxed());
    }

    /// Ends one. What it has told already may still come.
    pub(super) fn end(&mut self, selection: &Selection) {
        if let Some(handle) = self.live.remove(selection) {
            handle.abort();
        }
    }

    /// What is told next; it waits while there is nothing.
    pub(super) async fn next(&mut self) -> Option<(Selection, Told<Read>)> {
        self.streams.next().await
    }
}
