//! The thread that divides lines. It has one of its own: a backend may run programs of the node, which
//! rules and limits must not wait for.
//!
//! A plan is put in force when it is another one, and again from time to time, which puts back what
//! others took away, and takes up lines that came back. What fails is tried again, later each time. A
//! backend that another takes the place of is torn down first, also where that was another process's.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use netqos_api::koordinator::BackendKind;
use netqos_classes::{ClassBackend, StalledQueue, Standing, Traffic, Trouble};
use netqos_core::classes::ClassPlan;
use netqos_datapath::RepairBudget;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::backend::{recorded_backend, write_down};
use super::counters::Counters;

/// How often what is in force is compared with the plan although nothing has changed.
const INSPECT: Duration = Duration::from_secs(10);
/// How long a failure waits for another try: at first, and at most.
const AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(60));

/// How long what was counted is waited for; a divider that is at work says it later.
const COUNTED: Duration = Duration::from_millis(50);

/// What opens a backend by its name.
type Open = Box<dyn Fn(BackendKind) -> netqos_classes::Result<Box<dyn ClassBackend>> + Send>;

/// What is to be in force.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Order {
    /// By whom.
    pub(crate) kind: BackendKind,
    /// What. `None`: it is not known, and what is in force by that backend stays.
    pub(crate) plan: Option<Arc<ClassPlan>>,
}

/// What the thread is asked to do.
enum Ask {
    Divide(Order),
    /// To restore what another process changed.
    Repair,
    /// To count, and to say so.
    Count(SyncSender<()>),
}

/// What became of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Shown {
    /// How often anything about it was new.
    #[serde(skip)]
    pub news: u64,
    /// Who divides.
    #[serde(rename = "backend", serialize_with = "name")]
    pub kind: Option<BackendKind>,
    /// The lines that are as the plan says.
    pub lines: Vec<Arc<str>>,
    /// What is not as the plan says.
    pub troubles: Vec<Trouble>,
    /// Why nothing could be done at all.
    pub failure: Option<String>,
    /// How many changes were made since the start.
    pub changes: usize,
    /// The number of inspections since the start that restored what another process had changed.
    pub restored: u64,
    /// The number of queues that were emptied since the start because they had stalled.
    pub emptied: u64,
    /// The number of packets that this dropped.
    pub dropped: u64,
    /// The indexes of pods' links with filters of the backend.
    #[serde(skip)]
    pub filtered: BTreeSet<u32>,
    /// The queues that the last inspection emptied.
    pub stalled: Vec<StalledQueue>,
    /// Another process undoes more repairs than the budget allows.
    pub contested: bool,
    /// What is in force, as it was found last.
    #[serde(serialize_with = "flat")]
    pub standing: BTreeMap<Arc<str>, Standing>,
}

/// The engine's end of the thread.
#[derive(Debug)]
pub(crate) struct Divider {
    asks: Option<Sender<Ask>>,
    thread: Option<JoinHandle<()>>,
    shown: Arc<Mutex<Shown>>,
    counters: Arc<Mutex<Counters>>,
    last: Option<Order>,
}

impl Divider {
    /// Begins, with nothing to do. `run` is the folder in which it says who has anything in force.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn begin(
        run: PathBuf,
        open: impl Fn(BackendKind) -> netqos_classes::Result<Box<dyn ClassBackend>> + Send + 'static,
    ) -> std::io::Result<Self> {
        let (asks, asked) = channel();
        let shown = Arc::new(Mutex::new(Shown::default()));
        let counters = Arc::new(Mutex::new(Counters::default()));
        let worker = Worker {
            run,
            open: Box::new(open),
            shown: shown.clone(),
            counters: counters.clone(),
            backend: None,
            failures: 0,
            repairs: RepairBudget::default(),
        };
        let thread = thread::Builder::new().name("classes".into());
        let thread = thread.spawn(move || worker.work(&asked))?;
        Ok(Self {
            asks: Some(asks),
            thread: Some(thread),
            shown,
            counters,
            last: None,
        })
    }

    /// Has this put in force, if it is something else than before; `anew`: also if it is the same, since
    /// what it was done to is another.
    pub(crate) fn order(&mut self, order: Order, anew: bool) {
        if anew || self.last.as_ref() != Some(&order) {
            self.last = Some(order.clone());
            // A thread that has ended has said why.
            let _ = self.asks.as_ref().map(|asks| asks.send(Ask::Divide(order)));
        }
    }

    /// Has what another process changed restored now, unless it undoes repairs again and again.
    pub(crate) fn repair(&self) {
        let _ = self.asks.as_ref().map(|asks| asks.send(Ask::Repair));
    }

    /// What became of it.
    pub(crate) fn shown(&self) -> Shown {
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        shown.clone()
    }

    /// What went through the classes of lines since this thread began, as it is now, or, while it is at
    /// work, as it was last.
    pub(crate) fn counters(&self) -> Counters {
        let (counted, done) = sync_channel(1);
        let asks = self.asks.as_ref();
        if asks.is_some_and(|asks| asks.send(Ask::Count(counted)).is_ok()) {
            let _ = done.recv_timeout(COUNTED);
        }
        let counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        counters.clone()
    }

    /// Returns true if one of these links has a filter of the backend.
    pub(crate) fn has_filter_at(&self, links: &BTreeSet<u32>) -> bool {
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        !shown.filtered.is_disjoint(links)
    }

    /// How often anything about that was new.
    pub(crate) fn news(&self) -> u64 {
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        shown.news
    }
}

impl Drop for Divider {
    /// Waits for what is being done: nothing is left half made that need not be.
    fn drop(&mut self) {
        self.asks = None;
        if self.thread.take().is_some_and(|it| it.join().is_err()) {
            tracing::error!("the thread that divides lines has panicked");
        }
    }
}

struct Worker {
    run: PathBuf,
    open: Open,
    shown: Arc<Mutex<Shown>>,
    counters: Arc<Mutex<Counters>>,
    backend: Option<Box<dyn ClassBackend>>,
    /// How often it has failed in a row.
    failures: u32,
    /// The repairs of what other processes changed.
    repairs: RepairBudget<()>,
}

impl Worker {
    fn work(mut self, asks: &Receiver<Ask>) {
        let mut order: Option<Order> = None;
        let mut due: Option<Instant> = None;
        loop {
            let mut is_ordered = false;
            let wait = due.map(|due| due.saturating_duration_since(Instant::now()));
            let ask = match wait {
                None => asks.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(wait) => asks.recv_timeout(wait),
            };
            match ask {
                Ok(ask) => {
                    // Of several orders the last one counts.
                    for ask in std::iter::once(ask).chain(asks.try_iter()) {
                        match ask {
                            Ask::Divide(next) => {
                                self.failures = 0;
                                is_ordered = true;
                                order = Some(next);
                                due = Some(Instant::now());
                            }
                            Ask::Repair => due = order.as_ref().map(|_| Instant::now()),
                            Ask::Count(done) => {
                                self.count(order.as_ref());
                                // Whoever asked may have gone.
                                let _ = done.try_send(());
                            }
                        }
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if due.is_some_and(|due| due <= Instant::now())
                && let Some(order) = &order
            {
                let is_repair = !is_ordered && self.failures == 0;
                let wait = self.turn(order, is_repair);
                self.count(Some(order));
                due = Some(Instant::now() + wait);
            }
        }
    }

    /// Takes note of what went through the lines.
    fn count(&mut self, order: Option<&Order>) {
        let plan = order.and_then(|order| order.plan.as_ref());
        let Some(plan) = plan else {
            return;
        };
        for line in plan.lines.keys() {
            let counted = match &mut self.backend {
                Some(backend) => backend.traffic(line),
                None => Ok(Traffic::new()),
            };
            let traffic = counted.unwrap_or_else(|why| {
                tracing::debug!(%line, "what went through is not known: {why}");
                Traffic::new()
            });
            let counters = self.counters.lock();
            let mut counters = counters.unwrap_or_else(PoisonError::into_inner);
            counters.note(line, traffic, Instant::now());
        }
    }

    /// Makes it so. How long until it is looked at again. A repair waits where the last minute had as many as
    /// the budget allows.
    fn turn(&mut self, order: &Order, is_repair: bool) -> Duration {
        let now = Instant::now();
        if is_repair && self.repairs.is_exhausted(&(), now) {
            self.show_contested();
            return INSPECT;
        }
        let mut shown = Shown {
            kind: Some(order.kind),
            ..Shown::default()
        };
        let done = self.change_to(order.kind).and_then(|()| match &order.plan {
            Some(plan) => self.apply(order.kind, plan, &mut shown),
            None => Ok(()),
        });
        shown.failure = done.err();
        for queue in &shown.stalled {
            tracing::warn!("{queue}");
            shown.emptied += 1;
            shown.dropped += u64::from(queue.dropped);
        }
        if is_repair && shown.changes > shown.stalled.len() {
            self.repairs.record((), now);
            shown.restored = 1;
            tracing::warn!(changes = shown.changes, "restored the classes of uplinks");
            // Until an inspection finds nothing to restore.
            shown.contested = self.last_shown().contested;
        }
        let wait = match shown.failure {
            None => {
                self.failures = 0;
                INSPECT
            }
            Some(_) => {
                let (first, most) = AGAIN;
                let wait = first.saturating_mul(1 << self.failures.min(16)).min(most);
                self.failures += 1;
                wait
            }
        };
        self.show(shown);
        wait
    }

    fn last_shown(&self) -> Shown {
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        shown.clone()
    }

    /// Shows what is left of what was programmed, where it is not restored.
    fn show_contested(&mut self) {
        let mut shown = self.last_shown();
        let standing = self.backend.as_mut().map(|backend| backend.standing());
        let standing = standing.and_then(Result::ok).unwrap_or_default();
        let is_kept = |line: &Arc<str>| shown.standing.get(line) == standing.get(line);
        shown.lines.retain(is_kept);
        shown.standing = standing;
        shown.contested = true;
        (shown.changes, shown.restored) = (0, 0);
        (shown.emptied, shown.dropped) = (0, 0);
        shown.stalled.clear();
        self.show(shown);
    }

    /// Takes down what another backend has in force.
    fn change_to(&mut self, kind: BackendKind) -> Result<(), String> {
        let before = self.backend.as_ref().map(|backend| backend.kind());
        let before = before.or_else(|| recorded_backend(&self.run));
        let Some(before) = before.filter(|before| *before != kind) else {
            return Ok(());
        };
        let waits = |why| format!("{before} is not torn down, and {kind} waits for that: {why}");
        let mut backend = match self.backend.take() {
            Some(backend) => backend,
            None => (self.open)(before).map_err(waits)?,
        };
        if let Err(why) = backend.teardown() {
            self.backend = Some(backend);
            return Err(waits(why));
        }
        tracing::info!(%before, after = %kind, "another class backend");
        write_down(&self.run, BackendKind::None)
            .map_err(|why| format!("write down that {before} is torn down: {why}"))
    }

    fn apply(
        &mut self,
        kind: BackendKind,
        plan: &ClassPlan,
        shown: &mut Shown,
    ) -> Result<(), String> {
        let mut backend = match self.backend.take() {
            Some(backend) => backend,
            None => (self.open)(kind).map_err(|why| why.to_string())?,
        };
        if recorded_backend(&self.run) != Some(kind).filter(|it| *it != BackendKind::None) {
            let written = write_down(&self.run, kind);
            written.map_err(|why| format!("write down that {kind} divides the lines: {why}"))?;
        }
        let outcome = backend.apply(plan);
        let standing = backend.standing();
        self.backend = Some(backend);
        let outcome = outcome.map_err(|why| why.explained())?;
        shown.lines = outcome.lines;
        shown.troubles = outcome.troubles;
        shown.changes = outcome.changes;
        shown.stalled = outcome.stalled;
        shown.filtered = outcome.filtered;
        shown.standing = standing.map_err(|why| format!("read what is in force: {why}"))?;
        Ok(())
    }

    fn show(&self, now: Shown) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::take(&mut *shown);
        *shown = Shown {
            news: before.news,
            changes: before.changes + now.changes,
            restored: before.restored + now.restored,
            emptied: before.emptied + now.emptied,
            dropped: before.dropped + now.dropped,
            ..now
        };
        if (Shown {
            changes: before.changes,
            restored: before.restored,
            emptied: before.emptied,
            dropped: before.dropped,
            ..shown.clone()
        }) != before
        {
            shown.news += 1;
        }
    }
}

fn name<S: Serializer>(kind: &Option<BackendKind>, to: S) -> Result<S::Ok, S::Error> {
    kind.map(BackendKind::name).serialize(to)
}

/// As lists: what stands there is known by more than a name.
fn flat<S: Serializer>(standing: &BTreeMap<Arc<str>, Standing>, to: S) -> Result<S::Ok, S::Error> {
    let line = |standing: &Standing| {
        let classes = standing.classes.iter();
        let classes = classes.map(|((direction, class), (min, max))| {
            json!({"direction": direction, "class": class, "min": min, "max": max})
        });
        let parts = standing.parts.iter();
        let parts = parts.map(|((direction, part), (min, max))| {
            json!({"direction": direction, "part": part, "min": min, "max": max})
        });
        json!({"classes": classes.collect::<Vec<Value>>(), "parts": parts.collect::<Vec<Value>>()})
    };
    let lines = standing
        .iter()
        .map(|(name, standing)| (name, line(standing)));
    lines.collect::<BTreeMap<_, _>>().serialize(to)
}

#[cfg(test)]
mod tests;
