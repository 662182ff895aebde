//! Who may not go on from what he knows, since it is said to be forgotten.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard};

use crate::call::Call;
use crate::locked;

/// What lists and watches are of: the client, the path and what is selected.
type Of = (String, String, [String; 2]);

/// What was forgotten, and who knows of it by now.
#[derive(Default)]
pub(super) struct Forgotten(Mutex<State>);

#[derive(Default)]
struct State {
    /// Something was.
    is_any: bool,
    /// Who has listed anew since then.
    fresh: HashSet<Of>,
}

impl Forgotten {
    /// From now on.
    pub(super) fn forget(&self) {
        *self.state() = State {
            is_any: true,
            ..State::default()
        };
    }

    /// A list was answered.
    pub(super) fn listed(&self, call: &Call) {
        self.state().fresh.insert(of(call));
    }

    /// True of a further page of a list that was begun before.
    pub(super) fn is_page(&self, call: &Call) -> bool {
        let state = self.state();
        let is_further = call.verb() == "list" && call.query.get("continue").is_some();
        is_further && state.is_any && !state.fresh.contains(&of(call))
    }

    /// True of a watch that begins from what was known before.
    pub(super) fn is_watch(&self, call: &Call) -> bool {
        let state = self.state();
        let from = call.query.get("resourceVersion").unwrap_or_default();
        let is_from_now = ["", "0"].contains(&from) || call.query.flag("sendInitialEvents");
        state.is_any && !is_from_now && !state.fresh.contains(&of(call))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.0)
    }
}

fn of(call: &Call) -> Of {
    let selector = |name| call.query.get(name).unwrap_or_default().to_owned();
    let selectors = ["labelSelector", "fieldSelector"].map(selector);
    (call.client.clone(), call.path.clone(), selectors)
}
