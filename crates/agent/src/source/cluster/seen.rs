//! All that was told of a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use netqos_cluster::{Kind, Selection, Told};
use netqos_coexistence::AtWork;
use netqos_core::{ObjectName, PolicyVersion, Problem};
use netqos_index::Change;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::saved::Saved;
use super::{ClusterOptions, SOURCE};
use crate::Batch;
use crate::source::objects::Objects;

mod read;
#[cfg(test)]
mod tests;
mod words;

pub(super) use read::{Read, Stands};
use read::{Trace, invalid, key, marked};

/// How long a server has to say that it does not know a kind, of which there were objects, before
/// it is believed: one that has just started may not know its definitions yet.
const DISBELIEF: Duration = Duration::from_secs(60);
/// How far a server's cache may be behind what another one's has told. What is listed from it may lack what
/// is known already, and has told of that too when this has passed.
const CATCHES_UP: Duration = Duration::from_secs(5);

/// What is known.
#[derive(Debug)]
pub(super) struct Seen {
    node: String,
    /// Kinds that there were objects of when an agent before this one wrote them down.
    expected: BTreeSet<Kind>,
    disbelief: Duration,
    /// What an earlier process wrote down, for objects that cannot be read when this one begins.
    saved: Saved,
    objects: Objects,
    known: BTreeMap<Kind, BTreeMap<ObjectName, Known>>,
    watched: BTreeMap<Selection, Watched>,
}

/// What is known by one watch.
#[derive(Debug, Default)]
struct Watched {
    /// True once the server has told all.
    spoke: bool,
    /// Since when one server has told what becomes of them, without a break.
    heard: Option<Instant>,
    /// Why it does not tell what becomes of them.
    silent: Option<String>,
    /// When, in seconds since 1970, what is known by it was written down, where it is not from the
    /// server.
    remembered: Option<u64>,
    /// Since when the server says that it does not know the kind.
    unknown: Option<Instant>,
    /// What it has told of, each at which of its versions.
    names: BTreeMap<ObjectName, u64>,
}

impl Watched {
    fn is_known(&self) -> bool {
        self.spoke || self.remembered.is_some()
    }

    fn fall_silent(&mut self, why: impl Into<String>) {
        self.silent = Some(why.into());
        self.heard = None;
    }

    /// When it has told all that one whose place it takes could have told, if nothing comes between.
    fn caught_up(&self) -> Option<Instant> {
        let heard = self.heard.filter(|_| self.spoke);
        heard.map(|since| since + CATCHES_UP)
    }
}

/// What counts of an object: what it says, or, where that cannot be read, what it said before.
#[derive(Debug)]
struct Known {
    version: Option<PolicyVersion>,
    text: Option<Arc<RawValue>>,
    /// Something of it counts.
    is_good: bool,
    problem: Option<Problem>,
    trace: Option<Trace>,
}

impl Seen {
    /// Nothing yet, though of these kinds there should be something.
    pub(super) fn new(options: &ClusterOptions, expected: BTreeSet<Kind>) -> Self {
        let selections = options.selections().into_iter();
        Self {
            node: options.node.clone(),
            expected,
            disbelief: DISBELIEF,
            saved: Saved::new(&options.state, &options.node, options.homes.clone()),
            objects: Objects::in_catalog(options.networks.clone()),
            known: BTreeMap::new(),
            watched: selections.map(|it| (it, Watched::default())).collect(),
        }
    }

    /// Something else is watched from now on.
    pub(super) fn begin(&mut self, selection: Selection) {
        self.watched.entry(selection).or_default();
    }

    /// Something is not watched any more. What only this watch told of is gone.
    pub(super) fn end(&mut self, selection: &Selection) -> Vec<Change> {
        let ended = self.watched.remove(selection).unwrap_or_default();
        let mut changes = Vec::new();
        for name in ended.names.keys() {
            changes.extend(self.lose(selection.kind, name));
        }
        changes
    }

    /// A watch tells of an object no more. While another one does, it is there: that one is told in time
    /// what became of it.
    fn lose(&mut self, kind: Kind, name: &ObjectName) -> Vec<Change> {
        if self.of_kind(kind).any(|it| it.names.contains_key(name)) {
            return Vec::new();
        }
        if let Some(known) = self.known.get_mut(&kind) {
            known.remove(name);
        }
        let changes = self.objects.put(&key(kind, name), Vec::new());
        self.note_unreadable(kind, name, None);
        changes
    }

    /// The watches of a kind.
    fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &Watched> {
        let watched = self.watched.iter().filter(move |(it, _)| it.kind == kind);
        watched.map(|(_, watched)| watched)
    }

    /// What is known of the objects of a kind.
    fn known(&self, kind: Kind) -> impl Iterator<Item = (&ObjectName, &Known)> {
        self.known.get(&kind).into_iter().flatten()
    }

    /// What is known of an object.
    fn find(&self, kind: Kind, name: &ObjectName) -> Option<&Known> {
        self.known.get(&kind)?.get(name)
    }

    /// True when a watch has told all that one whose place it takes could have told. One that is silent
    /// takes nobody's place: what nobody tells of would be taken for gone.
    pub(super) fn may_replace(&self, selection: &Selection, now: Instant) -> bool {
        let watched = self.watched.get(selection);
        watched.is_some_and(|it| it.caught_up().is_some_and(|at| at <= now))
    }

    /// When the next watch may take the place of others, after `looked`.
    pub(super) fn next_may_replace(&self, looked: Instant) -> Option<Instant> {
        let caught_up = self.watched.values().filter_map(Watched::caught_up);
        caught_up.filter(|at| *at > looked).min()
    }

    /// Takes note of what a watch tells.
    pub(super) fn hear(&mut self, selection: &Selection, told: Told<Read>) -> Vec<Change> {
        let kind = selection.kind;
        let were_some = self.expected.contains(&kind) || self.known(kind).next().is_some();
        let Some(watched) = self.watched.get_mut(selection) else {
            return Vec::new();
        };
        let changes = match told {
            Told::Silent(why) => {
                watched.fall_silent(why);
                return Vec::new();
            }
            Told::Answers => {
                watched.silent = None;
                // It may be another server, that is behind.
                watched.heard = Some(Instant::now());
                return Vec::new();
            }
            // Without the definition there is no controller either: that would be no reason to take
            // all sets for empty.
            Told::Unknown if kind == Kind::NetworkQoSPeerSlice => {
                watched.fall_silent(
                    "404: it does not know this kind, which comes with netqos-controller",
                );
                return Vec::new();
            }
            Told::Unknown => {
                let since = *watched.unknown.get_or_insert_with(Instant::now);
                if were_some && since.elapsed() < self.disbelief {
                    watched.fall_silent(
                        "404: it does not know this kind, of which there were objects",
                    );
                    return Vec::new();
                }
                watched.spoke = true;
                self.replace(selection, BTreeMap::new())
            }
            Told::All(all) => {
                watched.unknown = None;
                watched.spoke = true;
                // What is listed again may be older than what was told.
                watched.heard = None;
                self.replace(selection, all)
            }
            Told::There(name, read) => self.put(selection, name, Some(read)),
            Told::Gone(name) => self.put(selection, name, None),
        };
        if let Some(watched) = self.watched.get_mut(selection) {
            watched.silent = None;
            watched.heard.get_or_insert_with(Instant::now);
            watched.remembered = None;
            if watched.spoke {
                self.expected.remove(&kind);
            }
        }
        changes
    }

    /// These are all objects of a watch from now on.
    fn replace(&mut self, selection: &Selection, all: BTreeMap<ObjectName, Read>) -> Vec<Change> {
        let known = self.watched.get(selection);
        let known = known.into_iter().flat_map(|it| it.names.keys());
        let gone = known.filter(|name| !all.contains_key(*name)).cloned();
        let gone: Vec<ObjectName> = gone.collect();
        let mut changes = Vec::new();
        for name in gone {
            changes.extend(self.put(selection, name, None));
        }
        for (name, read) in all {
            changes.extend(self.put(selection, name, Some(read)));
        }
        changes
    }

    /// An object of a watch is so, or is gone.
    fn put(&mut self, selection: &Selection, name: ObjectName, read: Option<Read>) -> Vec<Change> {
        let kind = selection.kind;
        let Some(watched) = self.watched.get_mut(selection) else {
            return Vec::new();
        };
        let Some(read) = read else {
            watched.names.remove(&name);
            return self.lose(kind, &name);
        };
        // While one watch takes the place of another, both tell of it, and one may be ahead.
        let revision = read.revision;
        watched.names.insert(name.clone(), revision);
        let is_ahead = |it: &Watched| it.names.get(&name).is_some_and(|told| *told > revision);
        if self.of_kind(kind).any(is_ahead) {
            return Vec::new();
        }
        let Read {
            object,
            version,
            text,
            trace,
            unreadable,
            ..
        } = match &read.object {
            Ok(_) => read,
            Err(problem) => {
                let problem = problem.clone();
                return self.keep(selection, name, read, problem);
            }
        };
        // As it was listed before a restart.
        let of_later = { unreadable.as_deref() }.map(|it| words::unreadable(kind, &name, it, true));
        let problem = of_later.map(|message| invalid(kind, &name, message));
        let known = Known {
            version,
            text,
            is_good: true,
            problem,
            trace,
        };
        let file = key(kind, &name);
        self.known
            .entry(kind)
            .or_default()
            .insert(name.clone(), known);
        let changes = self.objects.put(&file, object.into_iter().collect());
        // Afterwards: until then the catalog has what was there before.
        self.note_unreadable(kind, &name, unreadable.as_deref());
        changes
    }

    /// Says whether a NAD can be read. Else it attaches no pod: its plugins would be executed with a configuration that was
    /// replaced. For rules the network stays as it was.
    fn note_unreadable(&self, kind: Kind, name: &ObjectName, why: Option<&str>) {
        if kind == Kind::NetworkAttachmentDefinition
            && let Some(networks) = &self.objects.networks
        {
            networks.put_unreadable(name, why);
        }
    }

    /// An object cannot be read: what it said before stays in force, until it can be, or is gone. Where
    /// this process has never been told of anything that could be read, that is what an earlier one
    /// wrote down. An object in place of another one of its name has no part in what that said.
    fn keep(
        &mut self,
        selection: &Selection,
        name: ObjectName,
        read: Read,
        mut problem: Problem,
    ) -> Vec<Change> {
        let kind = selection.kind;
        let is_same = |text: &RawValue| uid_of(text) == read.text.as_deref().and_then(uid_of);
        let is_good = |it: &&Known| it.is_good && it.text.as_deref().is_some_and(is_same);
        let good = self.find(kind, &name).filter(is_good);
        let kept = good.map(|good| (good.version.clone(), good.text.clone()));
        let mut changes = Vec::new();
        let kept = kept.or_else(|| {
            let (_, mut saved) = self.saved.read(kind)?;
            let good = saved.remove(&name).filter(|it| {
                let is_same = it.text.as_deref().is_some_and(is_same);
                it.object.is_ok() && it.is_of(selection, &name) && is_same
            })?;
            let Read { version, text, .. } = good.clone();
            changes = self.put(selection, name.clone(), Some(good));
            Some((version, text))
        });
        let is_good = kept.is_some();
        self.note_unreadable(kind, &name, Some(&problem.message));
        let kept = kept.map(|(version, text)| match kind {
            // It attaches no pod after a restart either.
            Kind::NetworkAttachmentDefinition => {
                let text = text.and_then(|text| marked(&text, &problem.message));
                (version, text)
            }
            _ => (version, text),
        });
        problem.message = words::unreadable(kind, &name, &problem.message, is_good);
        let (version, text) = kept.unwrap_or((None, read.text));
        let known = Known {
            version,
            text,
            is_good,
            problem: Some(problem),
            trace: read.trace,
        };
        if !is_good {
            changes.extend(self.objects.put(&key(kind, &name), Vec::new()));
        }
        self.known.entry(kind).or_default().insert(name, known);
        changes
    }

    /// Takes what was written down by an earlier process for what was not told yet. True when
    /// nothing is missing then.
    pub(super) fn remember(
        &mut self,
        mut saved: impl FnMut(Kind) -> Option<(u64, BTreeMap<ObjectName, Read>)>,
    ) -> (bool, Vec<Change>) {
        let waiting = self.watched.iter().filter(|(_, it)| !it.is_known());
        let found: Option<Vec<_>> = waiting
            .map(|(selection, _)| (saved(selection.kind), selection))
            .filter(|(saved, selection)| saved.is_some() || is_needed(selection.kind))
            .map(|(saved, selection)| Some((saved?, selection.clone())))
            .collect();
        let Some(found) = found else {
            return (false, Vec::new());
        };
        let mut changes = Vec::new();
        for ((at, mut objects), selection) in found {
            objects.retain(|name, read| read.is_of(&selection, name));
            changes.extend(self.replace(&selection, objects));
            if let Some(watched) = self.watched.get_mut(&selection) {
                watched.remembered = Some(at);
            }
        }
        (true, changes)
    }

    /// True when everything was told at least once, or written down by an earlier process, and the node
    /// is one of the cluster: under a name that is none, it would have no pods, and all that is in force
    /// would go.
    pub(super) fn is_known(&self) -> bool {
        let mut needed = self.watched.iter().filter(|(it, _)| is_needed(it.kind));
        needed.all(|(_, watched)| watched.is_known()) && self.knows_node()
    }

    /// True when all is told but slices, of which there may be a watch that waits.
    pub(super) fn is_told(&self) -> bool {
        let others = self.watched.iter();
        let mut others =
            others.filter(|(it, _)| is_needed(it.kind) && it.kind != Kind::NetworkQoSPeerSlice);
        others.all(|(_, watched)| watched.spoke) && self.knows_node()
    }

    /// True when there is an object of this node.
    pub(super) fn knows_node(&self) -> bool {
        self.known(Kind::Node).next().is_some()
    }

    /// The texts of all objects of a kind, to be written down.
    pub(super) fn texts(&self, kind: Kind) -> Vec<&RawValue> {
        let known = self.known(kind);
        let texts = known.filter_map(|(_, known)| known.text.as_deref());
        texts.collect()
    }

    /// The versions of all policies that count, of the namespaces that this node's pods are in.
    pub(super) fn policies(&self) -> BTreeMap<ObjectName, PolicyVersion> {
        let pods = self.known(Kind::Pod).filter(|(_, pod)| pod.is_good);
        let namespaces: BTreeSet<&Arc<str>> = pods.map(|(name, _)| &name.namespace).collect();
        self.known(Kind::NetworkQoS)
            .filter(|(name, known)| known.is_good && namespaces.contains(&name.namespace))
            .filter_map(|(name, known)| Some((name.clone(), known.version.clone()?)))
            .collect()
    }

    /// Who else is at work on this node.
    pub(super) fn at_work(&self) -> AtWork {
        let mut at_work = AtWork::default();
        let known = self.known.values().flat_map(BTreeMap::values);
        for trace in known.filter_map(|known| known.trace.as_ref()) {
            match trace {
                Trace::Pod(neighbour) => at_work.meet(*neighbour),
                Trace::Status => at_work.ovn_statuses = true,
            }
        }
        at_work
    }

    /// The text of an object, and its version.
    pub(super) fn stands(&self, kind: Kind, name: &ObjectName) -> Stands {
        let known = self.find(kind, name);
        Stands {
            text: known.and_then(|known| known.text.clone()),
            version: known.and_then(|known| known.version.clone()),
        }
    }

    /// These changes, and how things are now.
    pub(super) fn batch(&self, changes: Vec<Change>) -> Batch {
        self.objects.complete();
        let mut problems = self.objects.problems(str::to_owned);
        let known = self.known.values().flat_map(BTreeMap::values);
        problems.extend(known.filter_map(|known| known.problem.clone()));
        problems.extend(self.silence());
        problems.extend(self.undefined());
        problems.sort();
        Batch {
            source: SOURCE,
            changes,
            problems,
            objects: self.objects.counts(),
            policies: BTreeMap::new(),
            at_work: self.at_work(),
            classes: Some(self.objects.classes()),
        }
    }
}

/// Which object a text is of.
fn uid_of(text: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct Object {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    struct Metadata {
        uid: String,
    }
    let object: Object = serde_json::from_str(text.get()).ok()?;
    Some(object.metadata.uid)
}

/// True of kinds without which nothing may be said. Who may not list what divides lines leaves them as
/// they are, and limits and rules need not wait for it, nor for what permits attachments.
fn is_needed(kind: Kind) -> bool {
    !matches!(kind, Kind::NodeSlo | Kind::NetworkAttachmentPolicy)
}
