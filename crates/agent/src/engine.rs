//! The one thread that changes the kernel.
//!
//! What sources say goes to the index, and what has become of the plan to the data planes. What
//! fails is tried again, a little later each time; nothing else waits for it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use netqos_api::{EgressWay, HookChoice};
use netqos_coexistence::Choice;
use netqos_core::objects::LocalInterface;
use netqos_core::{NodeReport, ObjectName, PolicyVersion, Problem};
use netqos_datapath::rules::{Outcome, RuleDatapath};
use netqos_datapath::{Features, Paths};
use netqos_index::{Change, Index, PeerSource};
use netqos_netlink::News;

use crate::Batch;
use crate::event::{Event, Look};
use crate::status::Reconciled;

mod backoff;
mod bpffs;
mod classes;
mod elsewhere;
mod grace;
mod last_valid;
mod limits;
mod problem_log;
mod problems;
mod pulse;
mod reconcile;
mod report;
mod tally;
mod whereabouts;

use backoff::Backoff;
use bpffs::Bpffs;
pub use classes::ClassOptions;
use classes::Classes;
use elsewhere::Others;
use last_valid::LastValid;
use limits::PodLimits;
use problem_log::ProblemLog;
pub(crate) use pulse::Pulse;
pub(crate) use tally::{Of, Row, Tally};
use whereabouts::{Object, Whereabouts};

/// How long what could not be cleaned up waits for another try.
const TIDY_AGAIN: Duration = Duration::from_secs(30);
/// How long the removal of links may keep changes waiting.
const TIDY_FOR: Duration = Duration::from_millis(50);
/// How long it has to be quiet before what is slow and not urgent is done.
const IDLE: Duration = Duration::from_secs(1);
/// How often the interfaces are looked at, where others may have been at work.
const INSPECT: Duration = Duration::from_secs(10);
/// Every so many inspections of rules read everything, and the others what the kernel does not announce.
const FULL_INSPECTION: u32 = 3;
/// The least time between inspections of rules at changed links.
const LEAST_INTERVAL: Duration = Duration::from_millis(250);
/// How often the engine shows that it lives.
const BEAT: Duration = Duration::from_secs(2);

/// What an engine is made with.
#[derive(Clone, Debug)]
pub struct Options {
    /// The node's name.
    pub node: String,
    /// The pod that it runs in, `namespace/name`, if it does in one.
    pub pod: Option<Arc<str>>,
    /// The folders of the node that are written to.
    pub paths: Paths,
    /// Where the host's processes are to be seen, `/proc` on a host.
    pub proc: std::path::PathBuf,
    /// Where runtimes remember their attachments.
    pub caches: Vec<std::path::PathBuf>,
    /// The directory of the records of `netqos-multinet`.
    pub multinet_records: std::path::PathBuf,
    /// How programs are attached.
    pub hook: HookChoice,
    /// Where a limit of the agent's own making queues what a pod sends.
    pub egress: EgressWay,
    /// What the addresses of peers are learned from.
    pub peers: PeerSource,
    /// What it enforces where others do, too.
    pub enforce: Choice,
    /// Which lines are divided, and by whom.
    pub classes: ClassOptions,
    /// Where what is in force is told to others. `None`: it is not.
    pub reports: Option<tokio::sync::watch::Sender<NodeReport>>,
    /// The sources that have to speak before anything is changed.
    pub sources: Vec<&'static str>,
}

/// Keeps the kernel as the sources say.
#[derive(Debug)]
pub struct Engine {
    options: Options,
    index: Index,
    limits: Option<PodLimits>,
    rules: Option<RuleDatapath>,
    /// When what changes of rules have retired is removed.
    finish_at: Option<Instant>,
    /// What the rules' data plane said last.
    outcome: Outcome,
    /// What each source said is wrong, and how many objects it has.
    sources: BTreeMap<&'static str, (Vec<Problem>, BTreeMap<&'static str, u64>)>,
    /// Which versions of policies are in force.
    policies: BTreeMap<ObjectName, PolicyVersion>,
    /// What sources wait for that have not spoken.
    waiting: BTreeMap<&'static str, String>,
    /// The pods that there is an object of.
    pods: HashMap<ObjectName, Object>,
    whereabouts: Whereabouts,
    /// Sandboxes have gone since limits were reconciled last.
    sandboxes_gone: bool,
    last_valid: LastValid,
    /// Pods whose limits may have become others.
    touched: BTreeSet<ObjectName>,
    /// What is wrong with the node itself.
    node_problems: BTreeMap<&'static str, Problem>,
    bpffs: Bpffs,
    /// What is wrong with where pins are. It does not pass by trying again.
    pins_problem: Option<Problem>,
    known_problems: BTreeSet<Problem>,
    problem_log: ProblemLog,
    others: Others,
    classes: Classes,
    synced: bool,
    /// The first plan is programmed, on the uplinks too. What starts later never makes it unready.
    started: bool,
    retry: Backoff,
    tidy_at: Option<Instant>,
    inspect_at: Instant,
    /// How many inspections of rules come before the next full one.
    before_full_inspection: u32,
    /// The links that changed since the last inspection of rules, and the earliest time of the next one.
    changed_links: BTreeSet<u32>,
    changed_links_at: Instant,
    features: Option<Features>,
    reconciled: Reconciled,
    durations: Durations,
    pulse: Arc<Pulse>,
}

/// How long it took each time.
pub(crate) type Durations = prometheus_client::metrics::histogram::Histogram;

impl Engine {
    /// An engine that has changed nothing yet.
    pub fn new(options: Options) -> Self {
        let buckets = [
            0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0,
            5.0,
        ];
        Self {
            index: Index::with_peers(&options.node, options.peers.clone()),
            bpffs: Bpffs::before(options.paths.bpffs().to_owned(), options.proc.clone()),
            pins_problem: None,
            classes: Classes::new(&options),
            options,
            limits: None,
            rules: None,
            finish_at: None,
            outcome: Outcome::default(),
            sources: BTreeMap::new(),
            policies: BTreeMap::new(),
            waiting: BTreeMap::new(),
            pods: HashMap::new(),
            whereabouts: Whereabouts::default(),
            sandboxes_gone: false,
            last_valid: LastValid::default(),
            touched: BTreeSet::new(),
            node_problems: BTreeMap::new(),
            known_problems: BTreeSet::new(),
            problem_log: ProblemLog::default(),
            others: Others::default(),
            synced: false,
            started: false,
            retry: Backoff::default(),
            tidy_at: None,
            inspect_at: Instant::now() + INSPECT,
            before_full_inspection: 0,
            changed_links: BTreeSet::new(),
            changed_links_at: Instant::now(),
            features: None,
            reconciled: Reconciled::default(),
            durations: Durations::new(buckets),
            pulse: Arc::new(Pulse::new()),
        }
    }

    pub(crate) fn pulse(&self) -> Arc<Pulse> {
        self.pulse.clone()
    }

    pub(crate) fn durations(&self) -> Durations {
        self.durations.clone()
    }

    /// Works until it is told to stop, or nobody can tell it anything any more. What is in force
    /// stays in force.
    pub fn run(mut self, events: &Receiver<Event>) {
        loop {
            self.pulse.beat();
            // What came meanwhile is one change.
            let heard: Vec<Event> = match events.recv_timeout(self.timeout()) {
                Ok(first) => std::iter::once(first).chain(events.try_iter()).collect(),
                Err(RecvTimeoutError::Timeout) => Vec::new(),
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let Some(looks) = self.meet(heard) else {
                return;
            };
            if self.synced && self.classes.is_to_look() && self.plan_classes(true) {
                self.tell_problems();
            }
            self.classes.repair_changes(Instant::now());
            if self.synced && self.classes.has_news() {
                self.tell_problems();
            }
            self.started |= self.synced && self.classes.has_begun();
            if self
                .problem_log
                .due()
                .is_some_and(|at| at <= Instant::now())
            {
                self.tell_problems();
            }
            for look in looks {
                look.take(&self);
            }
            if self.tidy_at.is_some_and(|at| at <= Instant::now()) {
                self.tidy();
            }
            self.inspect_limits();
            self.inspect_changed_links();
            if self.inspect_at <= Instant::now() {
                self.inspect();
            }
            self.finish_rules();
        }
    }

    /// Does what follows from what was heard, and what is due. Who wants to look; `None`: it is to end.
    fn meet(&mut self, heard: Vec<Event>) -> Option<Vec<Look>> {
        let now = Instant::now();
        let due = self.retry.due().is_some_and(|at| at <= now);
        let news = heard.iter().any(Event::is_news);
        let mut looks = Vec::new();
        for event in heard {
            match event {
                Event::Batch(batch) => self.hear(batch),
                Event::InCgroups(found) => self.find(found),
                Event::Cgroups(folders) => self.classes.find(folders),
                Event::NetFiles(files) => self.classes.hear_files(files),
                Event::Links(changes) => self.handle_link_changes(&changes),
                Event::Waiting { source, why } => {
                    self.waiting.insert(source, why);
                }
                Event::Look(look) => looks.push(look),
                Event::Stop => return None,
            }
        }
        if self.all_spoke() && (news || due || !self.synced) {
            self.reconcile(due);
        }
        Some(looks)
    }

    fn timeout(&self) -> Duration {
        let due = self.retry.due().into_iter().chain(self.tidy_at);
        let due = due.chain(self.problem_log.due());
        let due = due.chain(self.finish_at);
        let due = due.chain(self.limits.as_ref().map(PodLimits::next_inspection));
        let due = due.chain(self.classes.change_due());
        let due = due.chain((!self.changed_links.is_empty()).then_some(self.changed_links_at));
        let next = due.fold(self.inspect_at, Instant::min);
        let left = next.saturating_duration_since(Instant::now());
        left.min(BEAT)
    }

    fn all_spoke(&self) -> bool {
        let mut sources = self.options.sources.iter();
        sources.all(|source| self.sources.contains_key(source))
    }

    /// Takes note of what a source says.
    fn hear(&mut self, batch: Batch) {
        for mut change in batch.changes {
            let pod = match &mut change {
                Change::Pod(pod) => {
                    match pod.node.as_deref() == Some(self.options.node.as_str()) {
                        true => self.last_valid.retain(pod),
                        false => self.last_valid.forget(&pod.id.name, &pod.id.uid),
                    }
                    self.pods.insert(pod.id.name.clone(), Object::of(pod));
                    pod.id.name.clone()
                }
                Change::PodGone(id) => {
                    self.last_valid.forget(&id.name, &id.uid);
                    if self.pods.get(&id.name).map(Object::uid) == Some(&id.uid) {
                        self.pods.remove(&id.name);
                    }
                    id.name.clone()
                }
                Change::Attachments { pod, .. } => pod.clone(),
                _ => {
                    self.index.apply(change);
                    continue;
                }
            };
            match change {
                Change::Attachments {
                    uid, interfaces, ..
                } => {
                    self.sandboxes_gone |= interfaces.is_empty();
                    self.whereabouts.remember(&pod, uid, interfaces);
                }
                change => self.index.apply(change),
            }
            self.locate(&pod);
            self.touched.insert(pod);
        }
        if batch.source == "cluster" {
            self.policies = batch.policies;
            self.others.said = batch.at_work;
            self.classes.hear_koordlet(batch.at_work.koordlet);
        }
        if let Some(input) = batch.classes {
            self.classes.hear(&input);
        }
        self.sources
            .insert(batch.source, (batch.problems, batch.objects));
    }

    /// Takes note of what was found by cgroups.
    fn find(&mut self, found: BTreeMap<Arc<str>, LocalInterface>) {
        let other: BTreeSet<Arc<str>> = self.whereabouts.find(found).into_iter().collect();
        let theirs = self
            .pods
            .iter()
            .filter(|(_, object)| other.contains(object.uid()));
        let theirs: Vec<ObjectName> = theirs.map(|(pod, _)| pod.clone()).collect();
        for pod in theirs {
            self.locate(&pod);
        }
    }

    /// Says where a pod is, where that is known to be another place than before.
    fn locate(&mut self, pod: &ObjectName) {
        if let Some(change) = self.whereabouts.settle(pod, self.pods.get(pod)) {
            self.touched.insert(pod.clone());
            self.classes.is_stale = true;
            self.index.apply(change);
        }
    }

    /// Schedules inspections of the limits, rules and uplinks at changed links.
    fn handle_link_changes(&mut self, changes: &News) {
        self.classes.hear_links(changes);
        if let Some(limits) = &mut self.limits {
            limits.handle_link_changes(changes);
        }
        if changes.lost {
            self.inspect_at = Instant::now();
            self.before_full_inspection = 0;
            return;
        }
        let changed = changes.traffic_control.iter().chain(&changes.gone);
        self.changed_links.extend(changed);
        // The state of a pod's link is of no matter to its rules, and changes often.
        let queues = self.rules.iter().flat_map(|rules| {
            let links = changes.there.keys().copied();
            links.filter(|link| rules.is_queue(*link))
        });
        self.changed_links.extend(queues);
    }

    /// Inspects the limits that are due.
    fn inspect_limits(&mut self) {
        let now = Instant::now();
        let Some(limits) = self
            .limits
            .as_mut()
            .filter(|it| it.next_inspection() <= now)
        else {
            return;
        };
        let features = self.features.as_ref();
        let counts_redirected = features.map(Features::counts_redirected);
        limits.note_redirects(
            counts_redirected,
            self.others.redirecting_cni,
            self.others.calico_may_limit(),
        );
        let has_news = limits.inspect(now);
        self.reconciled.dropped += limits.take_dropped();
        (
            self.reconciled.limits_restored,
            self.reconciled.queues_emptied,
        ) = limits.repairs();
        if has_news {
            self.tell_problems();
            self.plan_retry(false);
        }
    }

    /// Restores rules at changed links.
    fn inspect_changed_links(&mut self) {
        let now = Instant::now();
        let rules = self.rules.as_mut().filter(|_| self.synced);
        let Some(rules) = rules.filter(|rules| rules.is_at(&self.changed_links)) else {
            self.changed_links.clear();
            return;
        };
        if now < self.changed_links_at {
            return;
        }
        self.changed_links_at = now + LEAST_INTERVAL;
        let links = std::mem::take(&mut self.changed_links);
        let outcome = rules.inspect_at(self.index.plan(), &links);
        self.record_inspection(outcome);
    }

    /// Puts back what others took away, or came before.
    fn inspect(&mut self) {
        self.inspect_at = Instant::now() + INSPECT;
        if self.synced && self.heed_others() {
            self.reconcile(false);
        }
        if self.synced && self.plan_classes(true) {
            self.tell_problems();
        }
        let Some(rules) = self.rules.as_mut().filter(|_| self.synced) else {
            return;
        };
        if self.index.plan().chains.is_empty() {
            return;
        }
        let plan = self.index.plan();
        let outcome = match self.before_full_inspection.checked_sub(1) {
            None => {
                self.before_full_inspection = FULL_INSPECTION - 1;
                rules.inspect(plan)
            }
            Some(left) => {
                self.before_full_inspection = left;
                rules.inspect_programs(plan)
            }
        };
        self.record_inspection(outcome);
    }

    /// Records the outcome of an inspection of rules.
    fn record_inspection(&mut self, outcome: Outcome) {
        self.outcome = outcome;
        for restored in &self.outcome.restored {
            let (interface, pod) = (&restored.interface, &restored.endpoint.pod);
            match restored.was_gone {
                true => {
                    tracing::warn!(interface, %pod, "somebody took the program of rules away; put back");
                }
                false => {
                    tracing::warn!(
                        interface, %pod,
                        "somebody's program came before the program of rules; put first again"
                    );
                }
            }
        }
        self.reconciled.restored += self.outcome.restored.len() as u64;
        self.reconciled.queues_restored += self.outcome.queues_restored;
        self.reconciled.changes += self.outcome.changes;
        self.reconciled.dropped += self.outcome.dropped;
        self.tell_problems();
        self.plan_retry(false);
    }

    /// What is slow and not urgent.
    fn tidy(&mut self) {
        self.tidy_at = None;
        let tidied = self.rules.as_mut().map(|rules| rules.tidy_for(TIDY_FOR));
        match tidied {
            None | Some(Ok(true)) => {}
            // Changes come first.
            Some(Ok(false)) => self.tidy_at = Some(Instant::now()),
            Some(Err(why)) => {
                tracing::warn!("clean up what no rule uses any more: {why}");
                self.tidy_at = Some(Instant::now() + TIDY_AGAIN);
            }
        }
        if self.features.is_none() {
            let probed = Features::probe(&self.options.paths).and_then(|features| {
                let features = features.with_rules(self.rules.as_ref());
                features.with_redirect_counter().with_classes()
            });
            match probed {
                Ok(features) => self.features = Some(features),
                Err(why) => {
                    tracing::warn!("find out what the kernel has: {why}");
                    self.features = Some(Features::default());
                }
            }
        }
    }
}
