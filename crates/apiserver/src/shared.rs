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
    pub(crate) record: Record,
    pub(crate) faults: Faults,
    pub(crate) bookmarks: Duration,
}

impl Shared {
    pub(crate) fn new(history: usize, bookmarks: Duration) -> Self {
        Self {
            state: Mutex::new(State::new(history)),
            revision: watch::Sender::default(),
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
