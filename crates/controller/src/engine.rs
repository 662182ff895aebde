//! One task that knows everything and writes when it leads.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::stream::{self, StreamExt as _};
use kube::Client;
use netqos_cluster::{Kind, Listing, Selection, Told, watch};
use netqos_coexistence::{AtWork, Choice, Concern, Enforce, Homes, Lingering};
use netqos_core::{ObjectName, ReportedProblem};
use netqos_index::{Change, PeerIndex};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use crate::debug::{self, Question};
use crate::events::{Events, Told as Event, reason_of};
use crate::feed::{Feed, KINDS, News, Read, TOLD_KINDS, Wrong};
use crate::leadership::Leadership;
use crate::metrics::Metrics;
use crate::node_slos::NodeSlos;
use crate::reports::Reports;
use crate::server::{Desk, Health};
use crate::slices::SliceWriter;
use crate::statuses::{EVERY, Statuses};

/// How much that comes together is taken in one go.
const MOST: usize = 1_000;
/// For how long nobody may have led when somebody begins to: a Lease lasts ten seconds, and is looked at
/// every two, each of which may take as long.
pub(crate) const LEADERLESS: Duration = Duration::from_secs(16);
/// How much of what came meanwhile is told.
const MISSED: usize = 1_000;
/// What a controller is told.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its namespace, in which slices of sets of several namespaces are.
    pub namespace: String,
    /// Its own name among the replicas.
    pub identity: String,
    /// How long the counts of a policy's status may be wrong at most.
    pub counts_within: Duration,
    /// Whether the agents enforce NetworkQoS, as they are told.
    pub network_qos: Enforce,
    /// Whether it writes NodeSLO objects. `Auto`: where Koordinator's manager does not.
    pub node_slo: Enforce,
    /// The ConfigMap that these are made of.
    pub slo_config: ObjectName,
    /// Where others live that enforce the same.
    pub homes: Arc<Homes>,
}

/// Watches, and writes as long as it leads. It never ends.
pub async fn run(
    client: Client,
    options: Options,
    mut leadership: Leadership,
    metrics: Metrics,
    desk: Desk,
) {
    let Desk {
        health,
        mut questions,
    } = desk;
    // All that a leader writes goes this way.
    let writer = leadership.fence(client.clone());
    let events = Events::begin(
        writer.clone(),
        leadership.clone(),
        &options.identity,
        metrics.clone(),
    );
    let kinds = KINDS.into_iter().chain(TOLD_KINDS);
    let mut selections: Vec<Selection> = kinds.map(Selection::all).collect();
    if options.node_slo != Enforce::Never {
        let ObjectName { namespace, name } = &options.slo_config;
        let config = Selection::all(Kind::ConfigMap).in_namespace(namespace);
        selections.push(config.with_field("metadata.name", name));
        selections.push(Selection::all(Kind::NodeSlo));
    }
    let watches = selections.into_iter().map(|selection| {
        let (kind, homes) = (selection.kind, options.homes.clone());
        let read = move |_: &ObjectName, value| Read::of(kind, value, &homes);
        let told = watch(client.clone(), &selection, Listing::Paged, read);
        told.map(move |told| (kind, told)).boxed()
    });
    let mut watches = stream::select_all(watches);
    let statuses = Statuses::new(
        writer.clone(),
        options.counts_within,
        metrics.clone(),
        events.clone(),
    );
    let node_slos = NodeSlos::new(
        writer.clone(),
        options.node_slo,
        options.slo_config.clone(),
        metrics.clone(),
        events.clone(),
    );
    let mut engine = Engine {
        node_slos,
        slices: SliceWriter::new(writer.clone(), &options.namespace, metrics.clone()),
        statuses,
        index: PeerIndex::default(),
        feed: Feed::new(&options.namespace),
        missed: VecDeque::new(),
        wrong: BTreeMap::new(),
        nodes: BTreeSet::new(),
        reports: Reports::new(writer, metrics.clone()),
        is_whole: false,
        leads: false,
        leadership: leadership.clone(),
        choice: Choice {
            network_qos: options.network_qos,
            ..Choice::default()
        },
        lingering: Lingering::default(),
        metrics,
        events,
    };
    let mut looks = interval(EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let far = Instant::now() + Duration::from_secs(3_600);
        let due = engine.slices.due().filter(|_| engine.may_write());
        tokio::select! {
            Some((kind, told)) = watches.next() => {
                let began = Instant::now();
                engine.hear(kind, told);
                for _ in 0..MOST {
                    let Some(Some((kind, told))) = watches.next().now_or_never() else {
                        break;
                    };
                    engine.hear(kind, told);
                }
                engine.settle();
                engine.metrics.worked(began.elapsed().as_secs_f64());
            }
            changed = leadership.changed() => {
                let Ok(leads) = changed else {
                    return;
                };
                engine.leads = leads;
                // Before a beginning, too: the end before it may not have been announced.
                engine.resign();
                if leads {
                    engine.metrics.leads(true);
                    engine.begin_to_write();
                }
            }
            () = sleep_until(due.unwrap_or(far)), if due.is_some() => engine.write_slices().await,
            _ = looks.tick() => engine.look().await,
            Some(question) = questions.recv() => engine.answer(question),
        }
        health.send_replace(engine.health());
    }
}

struct Engine {
    index: PeerIndex,
    feed: Feed,
    /// What was to be told while somebody else led, or nobody.
    missed: VecDeque<(Instant, Event)>,
    /// What is wrong with objects that have no status, and whether we have told so.
    wrong: BTreeMap<(Kind, ObjectName), (Wrong, bool)>,
    slices: SliceWriter,
    statuses: Statuses,
    node_slos: NodeSlos,
    nodes: BTreeSet<Arc<str>>,
    reports: Reports,
    is_whole: bool,
    /// As far as was announced.
    leads: bool,
    leadership: Leadership,
    choice: Choice,
    lingering: Lingering,
    metrics: Metrics,
    events: Events,
}

impl Engine {
    fn may_write(&self) -> bool {
        self.leads && self.leadership.holds() && self.is_whole
    }

    fn hear(&mut self, kind: Kind, told: Told<Read>) {
        if let Told::There(name, _) = &told
            && kind == Kind::Pod
            && self.feed.pod_uid(name).is_none()
        {
            self.statuses.pod_started();
        }
        for news in self.feed.hear(kind, told) {
            match news {
                News::Change(change) => {
                    let all = matches!(
                        *change,
                        Change::Quota(_)
                            | Change::QuotaGone(_)
                            | Change::Namespace(_)
                            | Change::NamespaceGone(_)
                            | Change::NetworkDefinition(_)
                            | Change::NetworkDefinitionGone(_)
                            | Change::ClusterNetwork(_)
                            | Change::ClusterNetworkGone(_)
                    );
                    let is_policy = matches!(*change, Change::Policy(_));
                    self.index.apply(*change);
                    if all && self.is_whole {
                        self.statuses.touch_all();
                    }
                    match is_policy {
                        true => self.slices.wake_at_once(),
                        false => self.slices.wake(),
                    }
                }
                News::Slice(slice, version) => self.slices.found(slice, version),
                News::SliceGone(name) => self.slices.gone(&name),
                News::Policy(name, facts) => self.statuses.policy(name, facts),
                News::Report(node, report) => {
                    let (report, version) = report.unzip();
                    self.reports.found(&node, version);
                    let we_come = !self.is_whole;
                    let pod = report.as_ref().and_then(|it| it.pod.as_deref());
                    self.feed.agents.said(&node, pod);
                    for problem in self.statuses.report(node.clone(), report, we_come) {
                        self.tell(&node, problem);
                    }
                }
                News::Node(name, facts) => {
                    self.node_slos.node(&name, facts.as_deref().cloned());
                    match facts {
                        Some(_) => drop(self.nodes.insert(name)),
                        None => drop(self.nodes.remove(&name)),
                    }
                }
                News::NodeSlo(name, facts) => self.node_slos.object(&name, facts.map(|it| *it)),
                News::SloConfig(facts) => self.node_slos.config(facts),
                News::Wrong(kind, name, Some(wrong)) => {
                    self.wrong.insert((kind, name), (wrong, false));
                }
                News::Wrong(kind, name, None) => drop(self.wrong.remove(&(kind, name))),
            }
        }
    }

    /// After what came together was heard.
    fn settle(&mut self) {
        for namespace in self.index.take_moved() {
            let names = self.index.policies_in(&namespace).cloned();
            let names: Vec<ObjectName> = names.collect();
            names.into_iter().for_each(|name| self.statuses.touch(name));
        }
        for node in self.feed.agents.take_changed() {
            self.statuses.touch_node(&node);
        }
        if !self.is_whole && self.feed.is_whole() {
            self.is_whole = true;
            self.feed.agents.all_told();
            tracing::info!("everything is known");
            self.begin_to_write();
        }
        self.tell_what_is_wrong();
    }

    /// Forgets what only a leader knows.
    fn resign(&mut self) {
        self.metrics.leads(false);
        self.statuses.resign();
        self.node_slos.resign();
    }

    /// Whatever is not as it should be is looked for.
    fn begin_to_write(&mut self) {
        if self.may_write() {
            self.slices.wake();
            self.statuses.touch_all();
            self.node_slos.touch_all();
            // Who led before has told what was there before, and nobody what has come since.
            for (at, event) in std::mem::take(&mut self.missed) {
                if at.elapsed() < LEADERLESS {
                    self.events.tell(event);
                }
            }
            self.tell_what_is_wrong();
        }
    }

    /// Whoever leads tells it once.
    fn tell_what_is_wrong(&mut self) {
        if !self.may_write() {
            return;
        }
        for ((kind, name), (wrong, told)) in &mut self.wrong {
            if !std::mem::replace(told, true) {
                self.events.tell(Event {
                    kind: *kind,
                    object: name.clone(),
                    uid: wrong.uid.to_string(),
                    good: false,
                    reason: "Invalid".to_owned(),
                    note: wrong.why.clone(),
                });
            }
        }
    }

    fn answer(&self, question: Question) {
        let state = debug::State {
            leads: self.leads,
            knows_all: self.is_whole,
            slices: &self.slices,
            statuses: &self.statuses,
            index: &self.index,
            agents: &self.feed.agents,
        };
        // Whoever asked may be gone.
        let _ = question.send(state.told());
    }

    async fn write_slices(&mut self) {
        let began = Instant::now();
        let changes = self.index.take_changes();
        self.metrics.sets(self.index.sets());
        self.slices.change(changes);
        self.metrics.worked(began.elapsed().as_secs_f64());
        self.slices.round().await;
    }

    /// What is done twice a second.
    async fn look(&mut self) {
        for (kind, many) in self.feed.counts() {
            self.metrics.knows(kind.name(), many);
        }
        let at_work = self.heed_others();
        if !self.may_write() {
            return;
        }
        self.statuses.slices_written(self.slices.take_spent());
        self.statuses.round(&self.index, &self.feed.agents).await;
        if self.feed.knows_slos() {
            let is_undefined = self.feed.is_unknown(Kind::NodeSlo);
            self.node_slos
                .round(at_work.koord_manager, is_undefined)
                .await;
        }
        self.reports.delete_left(&self.feed.agents).await;
        self.reports.delete_absent(&self.nodes).await;
    }

    /// Leaves policies to who else enforces them, and takes them back. Gives back who is there.
    fn heed_others(&mut self) -> AtWork {
        if !self.is_whole {
            return AtWork::default();
        }
        let at_work = AtWork {
            ovn_statuses: self.statuses.are_of_ovn(),
            ..self.feed.at_work()
        };
        let at_work = self.lingering.with(at_work, Instant::now().into_std());
        let findings = self.choice.findings(&at_work).into_iter();
        let mut left = findings.filter(|it| it.concern == Concern::NetworkQos && it.is_left);
        let why = left.next().map(|finding| finding.message);
        self.metrics.elsewhere(why.is_some());
        self.statuses.leave(why);
        at_work
    }

    /// An event about a pod, or a node.
    fn tell(&mut self, node: &str, problem: ReportedProblem) {
        let ReportedProblem {
            object,
            reason,
            message,
            ..
        } = &problem;
        let (kind, uid) = match problem.kind.as_str() {
            "Pod" => {
                let uid = self.feed.pod_uid(&problem.object);
                (Kind::Pod, uid.map(|uid| uid.to_string()))
            }
            "Node" => (Kind::Node, Some(problem.object.name.to_string())),
            // What becomes of a policy is told when its status is written, and what is wrong with an
            // object of another kind, once, and not by each node.
            _ => return,
        };
        let event_reason = match kind {
            Kind::Pod => reason_of(reason),
            _ => reason,
        };
        let what = match event_reason == reason {
            true => message.clone(),
            false => format!("{reason}: {message}"),
        };
        let event = Event {
            kind,
            object: object.clone(),
            uid: uid.unwrap_or_default(),
            good: false,
            reason: event_reason.to_owned(),
            note: format!("{what} (on {node})"),
        };
        if self.may_write() {
            self.events.tell(event);
            return;
        }
        // Who leads tells it. Where nobody does, the next one will.
        let is_over = |(at, _): &(Instant, Event)| at.elapsed() >= LEADERLESS;
        while self.missed.front().is_some_and(is_over) || self.missed.len() >= MISSED {
            self.missed.pop_front();
        }
        self.missed.push_back((Instant::now(), event));
    }

    fn health(&self) -> Health {
        Health {
            at: Instant::now(),
            waiting: (!self.is_whole).then(|| self.feed.waiting()),
            leads: self.leads && self.leadership.holds(),
        }
    }
}
