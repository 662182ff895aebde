//! The node's lines are divided as the objects say.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use netqos_api::koordinator::BackendKind;
use netqos_classes::{KernelOptions, Tunnels};
use netqos_core::classes::{ClassPlan, Place};
use netqos_core::objects::NetworkName;
use netqos_core::{ObjectRef, Problem, Reason};
use netqos_netlink::News;

use super::whereabouts::Whereabouts;
use super::{Engine, Options};
use crate::classes::{
    CGROUPS, ClassInput, Counters, DEFAULT_CLASS_BACKEND, Divider, HostLinks, InputPod, Knowledge,
    Lines, NetFiles, Order, Recorded, Shown, class_backend_as, plan, recorded_backend,
    stated_place, told,
};
use crate::status::ClassStatus;

/// Which lines are divided, and by whom.
#[derive(Clone, Debug)]
pub struct ClassOptions {
    /// Who divides them where no object says another.
    pub backend: BackendKind,
    /// The names of their links; without any, the links of default routes.
    pub lines: Vec<String>,
    /// Where cgroups are mounted.
    pub cgroups: PathBuf,
    /// As in [`KernelOptions`].
    pub divides_idle_lines: bool,
    /// As in [`KernelOptions`].
    pub tunnels: Tunnels,
}

impl Default for ClassOptions {
    fn default() -> Self {
        Self {
            backend: DEFAULT_CLASS_BACKEND,
            lines: Vec::new(),
            cgroups: CGROUPS.into(),
            divides_idle_lines: false,
            tunnels: Tunnels::default(),
        }
    }
}

/// What is known, and what follows from it.
#[derive(Debug)]
pub(super) struct Classes {
    node: String,
    knowledge: Knowledge,
    input: Arc<ClassInput>,
    lines: Lines,
    host_links: HostLinks,
    cgroups: BTreeMap<Arc<str>, PathBuf>,
    plan: Arc<ClassPlan>,
    /// What is written down of it, for the agent that comes after this one.
    kept: Option<Recorded>,
    problems: Vec<Problem>,
    /// Something that the plan depends on may be another than when it was made.
    pub(super) is_stale: bool,
    divider: Option<Divider>,
    /// How much of what the divider has shown was told.
    told: u64,
}

impl Classes {
    pub(super) fn new(options: &Options) -> Self {
        let run = options.paths.run();
        let kept = Recorded::read(run);
        let mut knowledge = Knowledge::new(&options.node, options.classes.backend);
        knowledge.restore(kept.as_ref(), recorded_backend(run));
        let lines = kept.as_ref().map(|it| it.lines.clone());
        let plan = ClassPlan {
            lines: lines.unwrap_or_default(),
            ..ClassPlan::default()
        };
        Self {
            node: options.node.clone(),
            knowledge,
            input: Arc::default(),
            lines: Lines::new(options.classes.lines.clone()),
            host_links: HostLinks::default(),
            cgroups: BTreeMap::new(),
            plan: Arc::new(plan),
            kept,
            problems: Vec::new(),
            is_stale: true,
            divider: None,
            told: 0,
        }
    }

    /// Takes note of what a source says.
    pub(super) fn hear(&mut self, input: &Arc<ClassInput>) {
        if self.input != *input {
            self.input = input.clone();
            let before = self.knowledge.warnings().to_vec();
            self.knowledge.hear(input);
            for warning in self.knowledge.warnings() {
                if !before.contains(warning) {
                    tracing::warn!("how lines are shared: {warning}");
                }
            }
            self.is_stale = true;
        }
    }

    /// Takes note of whether koordlet is at work on the node.
    pub(super) fn hear_koordlet(&mut self, is_at_work: bool) {
        if self.knowledge.hear_koordlet(is_at_work) {
            self.knowledge.hear(&self.input);
            self.is_stale = true;
        }
    }

    /// Whether the lines are left to koordlet, where that is told to divide them.
    pub(super) fn koordlet_divides(&self) -> Option<bool> {
        self.knowledge.koordlet_divides()
    }

    /// Takes note of what another agent's files say.
    pub(super) fn hear_files(&mut self, files: Arc<NetFiles>) {
        self.knowledge.hear_files(files);
        self.knowledge.hear(&self.input);
        self.is_stale = true;
    }

    /// Takes note of what became of links.
    pub(super) fn hear_links(&mut self, news: &News) {
        // Lines that nobody shares nobody looks at.
        if self.knowledge.division().is_some() {
            self.lines.hear(news);
            let divider = self.divider.as_ref();
            if divider.is_some_and(|it| it.has_filter_at(&news.traffic_control)) {
                self.lines.note_change();
            }
        }
    }

    /// True when lines are to be looked at by what became of links.
    pub(super) fn is_to_look(&self) -> bool {
        self.lines.is_to_look()
    }

    /// Returns when a change of an uplink by another process is to be inspected.
    pub(super) fn change_due(&self) -> Option<Instant> {
        self.lines.change_due()
    }

    /// Restores what another process changed on uplinks, at most twice a second.
    pub(super) fn repair_changes(&mut self, now: Instant) {
        if self.lines.take_change(now)
            && let Some(divider) = &self.divider
        {
            divider.repair();
        }
    }

    /// Takes note of where the cgroups of pods are.
    pub(super) fn find(&mut self, cgroups: BTreeMap<Arc<str>, PathBuf>) {
        self.cgroups = cgroups;
        self.is_stale = true;
    }

    /// What is to be in force.
    pub(super) fn plan(&self) -> &ClassPlan {
        &self.plan
    }

    /// Who is to put it in force.
    pub(super) fn backend(&self) -> BackendKind {
        self.knowledge.backend()
    }

    /// What became of it.
    pub(super) fn shown(&self) -> Shown {
        let divider = self.divider.as_ref();
        divider.map(Divider::shown).unwrap_or_default()
    }

    /// Of which class each pod is, and what it has of each line.
    pub(super) fn told(&self) -> Vec<ClassStatus> {
        let here = self.input.pods.values();
        let here = here.filter(|pod| *pod.node == *self.node);
        told(&self.knowledge, here, &self.plan, &self.shown().troubles)
    }

    /// What went through the classes of lines.
    pub(super) fn counters(&self) -> Counters {
        let divider = self.divider.as_ref();
        divider.map(Divider::counters).unwrap_or_default()
    }

    /// True unless lines are being divided for the first time.
    pub(super) fn has_begun(&self) -> bool {
        let divider = self.divider.as_ref();
        divider.is_none_or(|divider| divider.shown().kind.is_some())
    }

    /// True once when what became of it is new.
    pub(super) fn has_news(&mut self) -> bool {
        let news = self.divider.as_ref().map_or(0, Divider::news);
        std::mem::replace(&mut self.told, news) != news
    }

    /// Makes the plan anew. `None`: nobody has said how lines are divided, or in a way that one could follow.
    fn make(&mut self, whereabouts: &Whereabouts) -> Option<Arc<ClassPlan>> {
        let Some(division) = self.knowledge.division() else {
            self.plan = Arc::default();
            self.problems.clear();
            return None;
        };
        let here = self.input.pods.values();
        let here = here.filter(|pod| *pod.node == *self.node);
        let here: Vec<&InputPod> = here.collect();
        let mut stated: BTreeMap<IpAddr, BTreeSet<&Arc<str>>> = BTreeMap::new();
        for pod in &here {
            for address in &pod.addresses {
                stated.entry(*address).or_default().insert(&pod.id.uid);
            }
        }
        let mut pods = Vec::new();
        for pod in here {
            let mut place = place(
                pod,
                whereabouts,
                &mut self.host_links,
                &self.cgroups,
                &self.lines,
            );
            // A network of a tenant may use the addresses of the default one.
            let is_own = |it: &IpAddr| {
                let by = stated.get(it);
                by.is_none_or(|uids| uids.contains(&pod.id.uid))
            };
            place.addresses.retain(is_own);
            pods.extend(self.knowledge.pod(pod, place));
        }
        let (speeds, cards) = (self.lines.speeds(), self.lines.cards());
        let (made, problems) = plan(&self.node, division, speeds, cards, pods, &self.plan);
        self.problems = problems;
        if *self.plan != made {
            self.plan = Arc::new(made);
        }
        // What an older agent divided lines into, which has kept nothing, stays.
        let is_followed = speeds.is_empty() || !self.plan.lines.is_empty();
        is_followed.then(|| self.plan.clone())
    }

    /// Writes down what is to be in force.
    fn keep(&mut self, run: &Path) {
        let kept = self.knowledge.kept();
        let kept = kept.map(|(source, slo)| {
            let uplinks = self.lines.speeds().keys().cloned().collect();
            Recorded::new(source, slo, self.plan.lines.clone(), uplinks)
        });
        if kept == self.kept {
            return;
        }
        match Recorded::write(kept.as_ref(), run) {
            Ok(()) => self.kept = kept,
            Err(error) => tracing::warn!(%error, "cannot keep how lines are shared"),
        }
    }
}

fn place(
    pod: &InputPod,
    whereabouts: &Whereabouts,
    host_links: &mut HostLinks,
    cgroups: &BTreeMap<Arc<str>, PathBuf>,
    lines: &Lines,
) -> Place {
    let mut place = stated_place(pod);
    place.cgroup = cgroups.get(&pod.id.uid).cloned();
    if !pod.host_network {
        let interfaces = whereabouts.of(&pod.id.name);
        for one in interfaces {
            // A tenant may choose addresses of an attachment: they identify it on the uplink below it alone.
            let is_attachment = one.recorded.is_some()
                && !matches!(one.network, NetworkName::Default | NetworkName::Primary(_));
            let mut leads_to_uplink = || {
                let below = host_links.below(one);
                below.is_some_and(|link| lines.leads_to_uplink(link))
            };
            if !is_attachment || leads_to_uplink() {
                place.addresses.extend(&one.addresses);
            }
        }
        place.host_links = host_links.of(interfaces);
    }
    place
}

impl Engine {
    /// Has the lines divided as everything says now, if that is something else than before; `look`:
    /// also where only the node itself may be another. True when something was.
    pub(super) fn plan_classes(&mut self, look: bool) -> bool {
        let classes = &mut self.classes;
        let is_shared = classes.knowledge.division().is_some();
        let mut anew = false;
        if is_shared && (look || classes.lines.speeds().is_empty()) {
            let seen = classes.lines.look();
            classes.is_stale |= seen.is_other;
            anew = seen.is_undone;
        }
        if look {
            classes.host_links.keep(self.whereabouts.all());
        }
        if !classes.is_stale && !look {
            return false;
        }
        let was_stale = std::mem::take(&mut classes.is_stale);
        let before = classes.plan.clone();
        let plan = classes.make(&self.whereabouts);
        classes.keep(self.options.paths.run());
        let is_new = was_stale || classes.plan != before;
        let kind = classes.knowledge.backend();
        let run = self.options.paths.run();
        let is_idle = plan.is_none() && recorded_backend(run).is_none_or(|it| it == kind);
        if classes.divider.is_none() && is_idle {
            return is_new;
        }
        if classes.divider.is_none() {
            let paths = self.options.paths.clone();
            let cgroups = self.options.classes.cgroups.clone();
            let kernel = KernelOptions {
                hook: self.options.hook,
                divides_idle_lines: self.options.classes.divides_idle_lines,
                tunnels: self.options.classes.tunnels.clone(),
                ..KernelOptions::new(paths, &cgroups)
            };
            let open = move |kind| class_backend_as(kind, kernel.clone(), &cgroups);
            let begun = Divider::begin(run.to_owned(), open);
            match begun {
                Ok(divider) => classes.divider = Some(divider),
                Err(why) => {
                    classes.is_stale = true;
                    let message = format!("no line can be divided: start a thread: {why}");
                    self.node_problem("classes", Reason::LineNotDivided, message);
                    return true;
                }
            }
            self.node_problems.remove("classes");
        }
        if let Some(divider) = &mut self.classes.divider {
            divider.order(Order { kind, plan }, anew);
        }
        is_new
    }

    /// What is wrong with what is said, with what follows from it, and with what became of it.
    pub(super) fn class_problems(&self) -> Vec<Problem> {
        let classes = &self.classes;
        let node = || ObjectRef::Node(self.options.node.clone());
        let mut problems = classes.knowledge.problems().to_vec();
        problems.extend(classes.problems.iter().cloned());
        problems.extend(classes.lines.problem().map(|message| Problem {
            object: node(),
            reason: Reason::LineNotDivided,
            message: message.to_owned(),
        }));
        let shown = classes.shown();
        problems.extend(shown.contested.then(|| Problem {
            object: node(),
            reason: Reason::RepairContested,
            message: "another process keeps changing the qdiscs, classes or filters of uplinks; netqos restores \
                      them five times a minute"
                .to_owned(),
        }));
        problems.extend(shown.stalled.iter().map(|queue| Problem {
            object: node(),
            reason: Reason::QueueStalled,
            message: queue.to_string(),
        }));
        problems.extend(shown.troubles.into_iter().map(|trouble| {
            let pod = trouble
                .part
                .and_then(|part| classes.plan.pods.get(&part.pod));
            Problem {
                object: pod.map_or_else(node, |pod| ObjectRef::Pod(pod.id.name.clone())),
                reason: Reason::LineNotDivided,
                message: match trouble.line {
                    Some(line) if !trouble.what.starts_with(&*line) => {
                        format!("{line}: {}", trouble.what)
                    }
                    _ => trouble.what,
                },
            }
        }));
        problems.extend(shown.failure.map(|why| Problem {
            object: node(),
            reason: Reason::LineNotDivided,
            message: format!("the lines are not divided as they should be: {why}; tried again"),
        }));
        problems
    }
}
