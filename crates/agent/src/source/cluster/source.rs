//! What the cluster says, as far as it concerns this node.

use std::time::Instant;

use netqos_cluster::{Kind, Selection, Told};
use netqos_coexistence::Lingering;
use netqos_core::ObjectName;
use netqos_index::{Change, PeerSource};

use super::ClusterOptions;
use super::gate::Gate;
use super::interest::Interest;
use super::saved::Saved;
use super::seen::{Read, Seen};
use super::watches::Watches;
use crate::Batch;

/// What was told, what waits, and what is to be said.
pub(super) struct Source {
    pub(super) watches: Watches,
    seen: Seen,
    saved: Saved,
    /// Where a controller publishes who is a peer.
    sliced: Option<Sliced>,
    /// What was told, and was not looked at yet.
    told: Vec<Change>,
    /// What is to be said.
    changes: Vec<Change>,
    /// What an earlier process wrote down was looked at.
    is_remembered: bool,
    changed_since_saved: bool,
    lingering: Lingering,
    /// Rules of an earlier process are in force.
    has_rules: bool,
}

struct Sliced {
    gate: Gate,
    interest: Interest,
}

impl Source {
    /// Begins to watch.
    pub(super) fn new(options: &ClusterOptions, mut watches: Watches) -> Self {
        let saved = Saved::new(&options.state, &options.node, options.homes.clone());
        for selection in options.selections() {
            watches.begin(selection);
        }
        Self {
            watches,
            seen: Seen::new(options, saved.kinds()),
            saved,
            sliced: match &options.peers {
                PeerSource::Pods => None,
                PeerSource::Slices { controller } => Some(Sliced {
                    gate: Gate::new(controller.clone()),
                    interest: Interest::default(),
                }),
            },
            told: Vec::new(),
            changes: Vec::new(),
            is_remembered: false,
            changed_since_saved: true,
            lingering: Lingering::default(),
            has_rules: options.has_rules,
        }
    }

    /// Takes note of what a watch tells, until [`Source::advance`].
    pub(super) fn hear(&mut self, selection: &Selection, told: Told<Read>) {
        if let Told::Silent(why) = &told {
            tracing::debug!(kind = %selection.kind, "the API server is silent: {why}");
        }
        self.told.extend(self.seen.hear(selection, told));
    }

    /// Finds out what follows from what was told: what may be said, and what is to be watched.
    pub(super) fn advance(&mut self) {
        let Some(Sliced { gate, interest }) = &mut self.sliced else {
            self.changed_since_saved |= !self.told.is_empty();
            self.changes.append(&mut self.told);
            return;
        };
        loop {
            let told = std::mem::take(&mut self.told);
            self.changed_since_saved |= !told.is_empty();
            let stands = |name: &ObjectName| self.seen.stands(Kind::NetworkQoS, name);
            self.changes.extend(gate.take(told, Instant::now(), stands));
            let may_replace = |it: &Selection| self.seen.may_replace(it, Instant::now());
            let turn = interest.turn(gate.wanted(), may_replace);
            for selection in turn.begin {
                tracing::debug!(?selection, "watched from now on");
                self.seen.begin(selection.clone());
                self.watches.begin(selection);
            }
            for selection in turn.end {
                tracing::debug!(?selection, "not watched any more");
                self.told.extend(self.seen.end(&selection));
                self.watches.end(&selection);
            }
            if self.told.is_empty() {
                return;
            }
        }
    }

    /// Falls back on what an earlier process wrote down for what was not told yet. Where nothing was
    /// written down, there is nothing but the server.
    pub(super) fn remember(&mut self) {
        // What is watched follows from what was remembered: pods, then policies, then slices.
        for _ in 0..4 {
            let (found, changes) = self.seen.remember(|kind| self.saved.read(kind));
            self.told.extend(changes);
            self.advance();
            if !found {
                return;
            }
        }
        if let Some(Sliced { gate, .. }) = &mut self.sliced
            && let Some((_, policies)) = self.saved.read(Kind::NetworkQoS)
        {
            self.is_remembered = true;
            gate.remember(policies.into_values().filter_map(Read::into_policy));
            self.advance();
            // They may name sets of which the slices were written down, too.
            let (_, changes) = self.seen.remember(|kind| self.saved.read(kind));
            self.told.extend(changes);
            self.advance();
        }
    }

    /// True when nothing is missing that something may be in force by. Where no rule is in force, as
    /// on a node that has just come, what waits takes nothing from anybody: all else need not wait
    /// with it for a controller.
    pub(super) fn is_known(&self) -> bool {
        let gate = self.sliced.as_ref().map(|sliced| &sliced.gate);
        let gate = gate.filter(|_| self.has_rules);
        let is_missing = gate.is_some_and(|it| it.missing(self.is_remembered).next().is_some());
        self.seen.is_known() && !is_missing
    }

    /// What is still waited for, and why it does not come.
    pub(super) fn waiting(&self) -> String {
        let waiting = self.seen.waiting();
        let gate = self.sliced.as_ref().map(|sliced| &sliced.gate);
        let missing = gate
            .into_iter()
            .flat_map(|it| it.missing(self.is_remembered));
        let missing: Vec<String> = missing.map(ToString::to_string).collect();
        if missing.is_empty() {
            return waiting;
        }
        let mut unknown = format!(
            "the pods that rules go to are not published yet (NetworkQoS {})",
            missing.join(", ")
        );
        if let Some(leader) = gate.and_then(Gate::leader) {
            unknown = format!("{unknown}; {leader}");
        }
        match waiting.as_str() {
            "" => unknown,
            waiting => format!("{waiting}; {unknown}"),
        }
    }

    /// What there is to say, and how things are now.
    pub(super) fn batch(&mut self) -> Batch {
        let mut batch = self.seen.batch(std::mem::take(&mut self.changes));
        batch.at_work = self.lingering.with(batch.at_work, Instant::now());
        if let Some(Sliced { gate, .. }) = &self.sliced {
            batch.problems.extend(gate.problems(Instant::now()));
            batch.problems.sort();
        }
        batch.policies = self.seen.policies();
        if let Some(Sliced { gate, .. }) = &self.sliced {
            gate.in_force(&mut batch.policies);
        }
        batch
    }

    /// Since when something has waited for a controller.
    pub(super) fn waits(&self) -> Option<Instant> {
        self.sliced.as_ref()?.gate.waiting()
    }

    /// What is known of the controller.
    pub(super) fn tell_of_leader(&mut self, said: String) {
        if let Some(Sliced { gate, .. }) = &mut self.sliced {
            gate.tell_of_leader(said);
        }
    }

    /// When something is to be looked at although nothing is told.
    pub(super) fn due(&self) -> Option<Instant> {
        let now = Instant::now();
        let sliced = self.sliced.as_ref();
        let gate = sliced.and_then(|it| it.gate.due(now));
        let replaces = sliced.and_then(|_| self.seen.next_may_replace(now));
        let ends = self.lingering.ends();
        [gate, replaces, ends].into_iter().flatten().min()
    }

    /// True when something is others than what is written down, and worth it.
    pub(super) fn is_to_be_saved(&self) -> bool {
        self.changed_since_saved && self.seen.is_told()
    }

    /// Writes down what counts, for who comes after this process.
    ///
    /// # Errors
    /// It could not be written: what was written before stands there.
    pub(super) fn save(&mut self) -> netqos_datapath::Result<()> {
        let (seen, sliced) = (&self.seen, &self.sliced);
        self.saved.write(|kind| match sliced {
            // What waits is not in force.
            Some(Sliced { gate, .. }) if kind == Kind::NetworkQoS => gate.texts(),
            _ => seen.texts(kind),
        })?;
        self.changed_since_saved = false;
        Ok(())
    }
}
