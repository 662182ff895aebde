//! What all connections share.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::faults::Faults;
use crate::record::Record;
use crate::state::State;

/// The server, as its connections see it.
pub(crate) struct Shared {
    state: Mutex<State>,
    /// Changed with every revision: watches wait for it.
    pub(crate) revision: watch::Sender<u64>,
    /// What watches are told: how often they were to be broken, and to be ended.
    pub(crate) interruption: watch::Sender<Interruption>,
    pub(crate) record: Record,
    pub(crate) faults: Faults,
    pub(crate) bookmarks: Duration,
}

/// How often watches were interrupted, in each way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Interruption {
    /// The connection is closed without an end.
    pub(crate) broken: u64,
    /// The answer ends as it should.
    pub(crate) ended: u64,
    /// It is said that versions up to here are forgotten. A server does that by what it knows.
    pub(crate) expired: u64,
    /// Nothing more is sent, and the connection stays open. A [`Front`](crate::Front) does that.
    pub(crate) silenced: u64,
    /// Watches are sent a bookmark with the version of the last one. A [`Front`](crate::Front) does that.
    pub(crate) bookmarks: u64,
    pub(crate) bookmark_version: u64,
}

impl Shared {
    pub(crate) fn new(history: usize, bookmarks: Duration) -> Self {
        Self {
            state: Mutex::new(State::new(history)),
            revision: watch::Sender::default(),
            interruption: watch::Sender::default(),
            record: Record::default(),
            faults: Faults::default(),
            bookmarks,
        }
    }

    /// Looks at the state.
    pub(crate) fn read(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and wakes the watches.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.read();
        let result = change(&mut state);
        let revision = state.store.revision();
        drop(state);
        self.revision.send_if_modified(|known| {
            let changed = *known != revision;
            *known = revision.max(*known);
            changed
        });
        result
    }
}
