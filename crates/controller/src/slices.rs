//! Writes peer slices.
//!
//! A set that is not published is written at once, since rules wait for it. What becomes of others is
//! collected for a moment, and a set that changes without end is written at a bounded pace: two slices in a
//! second, or, where so many change at once that the last one would wait for long, all of them each three
//! seconds. Each write carries the uid and resourceVersion of what it replaces or deletes, and none reads: what is
//! there is known from the watch.
//!
//! Several writes are on their way at once, as long as none stands on another: those of one set go one
//! after the other, and an address that moves is out of one set before it gets into the other.
//!
//! A write that is refused keeps back what stands on it: the other slices of its set, and whoever is to
//! have the addresses that it was to take out. It is tried again later, each time, and all others go on:
//! a namespace in which nothing may be written stops no other. A server that does not answer ends the
//! round. Each round is short, since others wait meanwhile; the next one begins from what the watch has
//! told by then.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use kube::Client;
use netqos_cluster::ObjectVersion;
use netqos_core::ObjectName;
use netqos_core::objects::PeerSlice;
use netqos_index::{PeerChange, SliceWrite, Slicer, WantedSet, head_name};
use tokio::time::Instant;

use crate::metrics::{Metrics, Outcome};

mod ask;

use ask::{Failure, Version, ask};

const RESOURCE: &str = "networkqospeerslices";
/// How long policies are waited for that come together.
const AT_ONCE: Duration = Duration::from_millis(5);
/// How long changes are collected when nothing was written for a while.
pub(crate) const SOON: Duration = Duration::from_millis(100);
/// The least time from a round to the one for what has changed since. What rests, or is tried again, has
/// times of its own.
const APART: Duration = Duration::from_millis(600);
/// For how long a set is not written to for each of its slices that a round has changed.
const REST: Duration = Duration::from_millis(500);
/// The longest that it is not written to for all of them: so long who comes may not be known for a peer.
const LONGEST_REST: Duration = Duration::from_secs(3);
/// How many writes are on their way at a time.
const TOGETHER: usize = 16;
/// How long a round may take before what is left waits for the next.
const ROUND: Duration = Duration::from_secs(2);
/// How long to wait after what failed; twice as long each time, up to the most.
const AGAIN: Duration = Duration::from_secs(1);
const AGAIN_AT_MOST: Duration = Duration::from_secs(30);

/// The slices on the server, and what is to become of them.
pub(crate) struct SliceWriter {
    client: Client,
    slicer: Slicer,
    /// The versions of the slices that are there.
    versions: HashMap<ObjectName, Version>,
    /// When the next round is due, if one is.
    due: Option<Instant>,
    /// Until when changes of what is published are collected, if there are any.
    collecting: Option<Instant>,
    /// When they were written last.
    last: Option<Instant>,
    /// Rounds in a row that the server did not answer.
    silences: u32,
    /// Sets of which a write was refused.
    refused: HashMap<SetName, Refused>,
    /// Until when sets are not written to, of which several slices have just been.
    resting: HashMap<SetName, Instant>,
    /// How many writes pods have cost since that was asked for.
    spent: usize,
    metrics: Metrics,
}

/// The set of a slice, by its namespace and the beginning of its name.
type SetName = (Arc<str>, String);

/// When a set is tried again, and how often it was refused.
#[derive(Clone, Copy, Debug)]
struct Refused {
    until: Instant,
    times: u32,
}

/// A write that is on its way.
struct Flying {
    set: SetName,
    /// The addresses that it takes out.
    going: Vec<IpAddr>,
    /// It changes a slice that there was.
    is_change: bool,
    /// It puts pods into what is there; a slice that is new is mostly of a set that is.
    is_of_pods: bool,
}

/// What a round has come to know.
#[derive(Default)]
struct Round {
    /// The server did not answer.
    is_silent: bool,
    /// This replica no longer leads: its next term begins with another round.
    is_deposed: bool,
    /// When what was kept back is tried again.
    again: Option<Instant>,
    /// Addresses that are in a slice which should have lost them.
    stuck: HashSet<IpAddr>,
    kept_back: HashSet<SetName>,
    /// How many slices of each set were changed.
    changed: HashMap<SetName, u32>,
    /// What is on its way, by its name.
    flying: HashMap<ObjectName, Flying>,
}

impl SliceWriter {
    /// `namespace` is the controller's.
    pub(crate) fn new(client: Client, namespace: &str, metrics: Metrics) -> Self {
        Self {
            client,
            slicer: Slicer::new(namespace),
            versions: HashMap::new(),
            due: None,
            collecting: None,
            last: None,
            silences: 0,
            refused: HashMap::new(),
            resting: HashMap::new(),
            spent: 0,
            metrics,
        }
    }

    /// Takes note of what became of sets.
    pub(crate) fn change(&mut self, changes: Vec<PeerChange>) {
        self.slicer.change(changes);
    }

    /// A slice is there, as the watch tells it.
    pub(crate) fn found(&mut self, slice: PeerSlice, version: ObjectVersion) {
        let known = self.versions.get(&slice.name);
        if known.is_some_and(|known| version.number <= known.version.number) {
            // What we wrote ourselves, or what was there before.
            return;
        }
        let known = Version {
            version,
            slice: Some(slice.clone()),
        };
        self.versions.insert(slice.name.clone(), known);
        self.slicer.found(slice);
        self.wake();
    }

    /// A slice is gone, as the watch tells it.
    pub(crate) fn gone(&mut self, name: &ObjectName) {
        let known = self.versions.remove(name);
        // That of one that we have deleted ourselves is known.
        if known.is_some_and(|known| known.slice.is_some()) {
            self.slicer.gone(name);
            self.wake();
        }
    }

    /// Something is to be written.
    pub(crate) fn wake(&mut self) {
        let soon = Instant::now() + SOON;
        let apart = self.last.map(|last| last + APART);
        let mut at = apart.map_or(soon, |apart| apart.max(soon));
        if self.silences > 0 {
            at = at.max(self.due.unwrap_or(at));
        }
        self.collecting = Some(self.collecting.map_or(at, |until| until.min(at)));
        self.be_due(at);
    }

    /// A policy has come, or says something else: sets that it names may not be published.
    pub(crate) fn wake_at_once(&mut self) {
        self.wake();
        if self.silences == 0 {
            self.be_due(Instant::now() + AT_ONCE);
        }
    }

    fn be_due(&mut self, at: Instant) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// When the next round is due.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Writes what is to be written, or a part of it. To be called by the leader alone, once all is
    /// known.
    pub(crate) async fn round(&mut self) {
        self.due = None;
        let writes = self.slicer.take_writes();
        self.write(writes).await;
    }

    async fn write(&mut self, writes: Vec<SliceWrite>) {
        let began = Instant::now();
        self.collecting.take_if(|until| *until <= began);
        let mut round = Round {
            again: self.collecting,
            ..Round::default()
        };
        let mut asked = FuturesUnordered::new();
        let mut writes = writes.into_iter();
        for write in writes.by_ref() {
            // What this one stands on is done first, or known not to be.
            while round.flying.len() >= TOGETHER || round.stands_on_another(self, &write) {
                let Some((write, answer)) = asked.next().await else {
                    break;
                };
                self.land(&mut round, write, answer);
            }
            if round.is_silent || round.is_deposed {
                self.undone(&write);
                break;
            }
            let name = named(&write);
            let set = set_of(name);
            let refused = self.refused.get(&set).map(|refused| refused.until);
            let rests = self.resting.get(&set).copied().max(self.collecting);
            let waits = refused.max(rests.filter(|_| !self.completes(&write)));
            let waits = waits.filter(|until| *until > began);
            let mut coming = self.coming(&write);
            let on_what_is_stuck = coming.any(|address| round.stuck.contains(address));
            drop(coming);
            if waits.is_some() || on_what_is_stuck || round.kept_back.contains(&set) {
                round.stuck.extend(self.going(&write));
                round.kept_back.insert(set);
                self.undone(&write);
                // What rests until about the same time is one round.
                round.try_again(waits.unwrap_or(began + AGAIN).max(began + SOON));
                continue;
            }
            let is_change = self.there(name).is_some();
            let flying = Flying {
                set,
                going: self.going(&write),
                is_change,
                is_of_pods: is_change && self.coming(&write).next().is_some(),
            };
            round.flying.insert(name.clone(), flying);
            let known = self.versions.get(name).filter(|it| it.slice.is_some());
            let known = known.map(|known| known.version.clone());
            asked.push(ask(self.client.clone(), write, known));
            if began.elapsed() > ROUND {
                round.try_again(Instant::now());
                break;
            }
        }
        while let Some((write, answer)) = asked.next().await {
            self.land(&mut round, write, answer);
        }
        for write in writes {
            self.undone(&write);
        }
        self.metrics.slices(self.slicer.slices());
        let now = Instant::now();
        if self.collecting.is_none() {
            self.last = Some(now);
        }
        self.resting.retain(|_, until| *until > now);
        for (set, slices) in std::mem::take(&mut round.changed) {
            self.resting.insert(set, began + rest(slices));
        }
        if round.is_silent {
            round.again = Some(Instant::now() + later(self.silences));
            self.silences += 1;
        }
        self.due = round.again;
    }

    /// Takes note of what became of a write.
    fn land(&mut self, round: &mut Round, write: SliceWrite, answer: Result<Version, Failure>) {
        let name = named(&write).clone();
        let Some(Flying {
            set,
            going,
            is_change,
            is_of_pods,
        }) = round.flying.remove(&name)
        else {
            return;
        };
        match answer {
            Ok(known) => {
                self.metrics.wrote(RESOURCE, Outcome::Done);
                self.spent += usize::from(is_of_pods);
                self.versions.insert(name, known);
                self.silences = 0;
                self.refused.remove(&set);
                if is_change {
                    *round.changed.entry(set).or_default() += 1;
                }
            }
            Err(Failure::Refused(why)) => {
                self.metrics.wrote(RESOURCE, Outcome::Failed);
                let times = self.refused.get(&set).map_or(0, |refused| refused.times);
                if times == 0 {
                    tracing::warn!("the slice {name} could not be written: {why}");
                }
                let until = Instant::now() + later(times);
                let refused = Refused {
                    until,
                    times: times + 1,
                };
                round.stuck.extend(going);
                self.refused.insert(set.clone(), refused);
                round.kept_back.insert(set);
                self.undone(&write);
                round.try_again(until);
            }
            Err(Failure::Silent(why)) => {
                self.metrics.wrote(RESOURCE, Outcome::Failed);
                if !round.is_silent {
                    tracing::warn!("the slice {name} could not be written: {why}");
                }
                self.undone(&write);
                round.is_silent = true;
            }
            Err(Failure::NotLeading) => {
                self.undone(&write);
                round.is_deposed = true;
            }
        }
    }

    /// How many writes pods have cost since the last time.
    pub(crate) fn take_spent(&mut self) -> usize {
        std::mem::take(&mut self.spent)
    }

    /// The sets that there are to be, and their slices.
    pub(crate) fn wanted(&self) -> impl Iterator<Item = WantedSet<'_>> {
        self.slicer.wanted()
    }

    /// Of how many sets something was not looked at yet.
    pub(crate) fn waiting(&self) -> usize {
        self.slicer.waiting()
    }

    /// The slices that are there, as far as is known.
    pub(crate) fn all_there(&self) -> impl Iterator<Item = (&ObjectName, &BTreeSet<IpAddr>)> {
        let known = self.versions.iter();
        known.filter_map(|(name, known)| Some((name, &known.slice.as_ref()?.addresses)))
    }

    /// What is in a slice, as far as is known.
    pub(crate) fn there(&self, name: &ObjectName) -> Option<&BTreeSet<IpAddr>> {
        let slice = self.versions.get(name)?.slice.as_ref()?;
        Some(&slice.addresses)
    }

    /// True of a write to a set that is not published as a whole, such as one that was deleted a moment ago:
    /// nobody goes by it, and rules wait for it.
    fn completes(&self, write: &SliceWrite) -> bool {
        let SliceWrite::Put(slice) = write else {
            return false;
        };
        let head = ObjectName::new(&slice.name.namespace, &head_name(slice.set));
        self.there(&head).is_none()
    }

    /// The addresses that a write puts in.
    fn coming<'s>(&'s self, write: &'s SliceWrite) -> impl Iterator<Item = &'s IpAddr> {
        let there = self.there(named(write));
        let puts = match write {
            SliceWrite::Put(slice) => Some(&slice.addresses),
            SliceWrite::Delete(_) => None,
        };
        let puts = puts.into_iter().flatten();
        puts.filter(move |address| there.is_none_or(|there| !there.contains(*address)))
    }

    /// The addresses that a write takes out, so that another set may have them. What is in a set that no
    /// policy names is in nobody's way.
    fn going(&self, write: &SliceWrite) -> Vec<IpAddr> {
        if !self.slicer.is_named(named(write)) {
            return Vec::new();
        }
        let there = self.there(named(write)).into_iter().flatten().copied();
        there
            .filter(|address| match write {
                SliceWrite::Put(slice) => !slice.addresses.contains(address),
                SliceWrite::Delete(_) => true,
            })
            .collect()
    }

    /// A write was not done, or nobody knows: what is there is what was there.
    fn undone(&mut self, write: &SliceWrite) {
        let name = named(write);
        let known = self.versions.get(name);
        match known.and_then(|known| known.slice.clone()) {
            Some(slice) => self.slicer.found(slice),
            None => self.slicer.gone(name),
        }
    }
}

impl Round {
    /// True when something on its way is of the same set, or takes out an address that this puts in.
    fn stands_on_another(&self, writer: &SliceWriter, write: &SliceWrite) -> bool {
        if self.flying.is_empty() {
            return false;
        }
        let set = set_of(named(write));
        let coming: HashSet<&IpAddr> = writer.coming(write).collect();
        let mut flying = self.flying.values();
        flying.any(|other| other.set == set || other.going.iter().any(|it| coming.contains(it)))
    }

    fn try_again(&mut self, at: Instant) {
        self.again = self.again.into_iter().chain([at]).min();
    }
}

/// The slice that a write is of.
fn named(write: &SliceWrite) -> &ObjectName {
    match write {
        SliceWrite::Put(slice) => &slice.name,
        SliceWrite::Delete(name) => name,
    }
}

/// The set of a slice: its name is the set's and a number.
fn set_of(slice: &ObjectName) -> SetName {
    let name = slice
        .name
        .rsplit_once('-')
        .map_or(&*slice.name, |(set, _)| set);
    (slice.namespace.clone(), name.to_owned())
}

/// For how long a set is not written to of which so many slices were changed.
fn rest(slices: u32) -> Duration {
    REST.saturating_mul(slices).min(LONGEST_REST)
}

/// How long to wait after so many failures.
fn later(failures: u32) -> Duration {
    let again = AGAIN * 2_u32.saturating_pow(failures.min(8));
    again.min(AGAIN_AT_MOST)
}
