//! All that was told of a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use netqos_cluster::{Kind, Selection, Told};
use netqos_core::{ObjectName, ObjectRef, Policy, Problem, Reason};
use netqos_index::Change;
use netqos_k8s::{Object, object_from_value};
use serde_json::Value;
use serde_json::value::RawValue;

use super::trim::trim;
use super::{ClusterOptions, SOURCE};
use crate::Batch;
use crate::source::objects::Objects;

#[cfg(test)]
mod tests;

/// An object as it was told: what it says, and its text, to be kept.
#[derive(Clone, Debug)]
pub(super) struct Read {
    object: Result<Object, Problem>,
    generation: Option<i64>,
    text: Option<Arc<RawValue>>,
}

/// How an object stands there, apart from what it means.
#[derive(Clone, Debug, Default)]
pub(super) struct Stands {
    /// What is looked at of it, as it is written.
    pub(super) text: Option<Arc<RawValue>>,
    /// Its `metadata.generation`.
    pub(super) generation: Option<i64>,
}

/// How long a server has to say that it does not know a kind, of which there were objects, before
/// it is believed: one that has just started may not know its definitions yet.
const DISBELIEF: Duration = Duration::from_secs(60);

/// What is known.
#[derive(Debug)]
pub(super) struct Seen {
    node: String,
    /// Kinds that there were objects of when an agent before this one wrote them down.
    expected: BTreeSet<Kind>,
    disbelief: Duration,
    objects: Objects,
    watched: BTreeMap<Selection, Watched>,
}

/// What is known by one watch.
#[derive(Debug, Default)]
struct Watched {
    /// True once the server has told all.
    spoke: bool,
    /// Why it does not tell what becomes of them.
    silent: Option<String>,
    /// When, in seconds since 1970, what is known by it was written down, where it is not from the
    /// server.
    remembered: Option<u64>,
    /// Since when the server says that it does not know the kind.
    unknown: Option<Instant>,
    objects: BTreeMap<ObjectName, Known>,
}

impl Watched {
    fn is_known(&self) -> bool {
        self.spoke || self.remembered.is_some()
    }
}

#[derive(Debug)]
struct Known {
    generation: Option<i64>,
    text: Option<Arc<RawValue>>,
    problem: Option<Problem>,
}

impl Read {
    /// Reads what stands in an object.
    pub(super) fn of(kind: Kind, name: &ObjectName, mut value: Value) -> Self {
        trim(kind, &mut value);
        let object = object_from_value(&value).map_err(|errors| {
            let errors = errors.iter().map(ToString::to_string);
            Problem {
                object: about(kind, name),
                reason: Reason::Invalid,
                message: format!(
                    "left out: {kind} {name}: {}",
                    errors.collect::<Vec<_>>().join("; ")
                ),
            }
        });
        Self {
            object,
            generation: value
                .pointer("/metadata/generation")
                .and_then(Value::as_i64),
            text: serde_json::value::to_raw_value(&value).ok().map(Arc::from),
        }
    }

    /// The policy that it is, and how it stands there.
    pub(super) fn into_policy(self) -> Option<(Policy, Stands)> {
        let stands = Stands {
            text: self.text,
            generation: self.generation,
        };
        match self.object {
            Ok(Object::Policy(policy)) => Some((policy, stands)),
            _ => None,
        }
    }

    /// True when it is one of those that a watch of the agent's is of.
    fn is_of(&self, selection: &Selection, name: &ObjectName) -> bool {
        let namespace = selection.namespace.as_deref();
        let fields = selection.fields.as_deref();
        let labels = selection.labels.as_deref();
        let selected = match &self.object {
            Ok(Object::Pod(pod, _)) => fields.is_none_or(|fields| {
                let node = pod.node.as_deref().unwrap_or_default();
                fields == format!("spec.nodeName={node}")
            }),
            Ok(Object::PeerSlice(slice)) => {
                labels.is_none_or(|labels| labels.contains(&slice.set.0.to_string()))
            }
            _ => true,
        };
        selected && namespace.is_none_or(|namespace| namespace == &*name.namespace)
    }
}

/// What a problem with an object is about, in words that a condition or an event can be hung on.
fn about(kind: Kind, name: &ObjectName) -> ObjectRef {
    match kind {
        Kind::NetworkQoS => ObjectRef::Policy(name.clone()),
        Kind::Pod => ObjectRef::Pod(name.clone()),
        Kind::Node => ObjectRef::Node(name.name.to_string()),
        _ => ObjectRef::File(key(kind, name)),
    }
}

/// Where an object stands: `pods/games/a`.
fn key(kind: Kind, name: &ObjectName) -> String {
    match &*name.namespace {
        "" => format!("{}/{}", kind.plural(), name.name),
        namespace => format!("{}/{namespace}/{}", kind.plural(), name.name),
    }
}

impl Seen {
    /// Nothing yet, though of these kinds there should be something.
    pub(super) fn new(options: &ClusterOptions, expected: BTreeSet<Kind>) -> Self {
        let selections = options.selections().into_iter();
        Self {
            node: options.node.clone(),
            expected,
            disbelief: DISBELIEF,
            objects: Objects::default(),
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
        for name in ended.objects.keys() {
            let same = |(it, _): &(&Selection, &Watched)| it.kind == selection.kind;
            let mut others = self.watched.iter().filter(same);
            if !others.any(|(_, other)| other.objects.contains_key(name)) {
                changes.extend(self.objects.put(&key(selection.kind, name), Vec::new()));
            }
        }
        changes
    }

    /// True when a watch has told all, or an earlier process wrote down what it told.
    pub(super) fn has_spoken(&self, selection: &Selection) -> bool {
        self.watched.get(selection).is_some_and(Watched::is_known)
    }

    /// Takes note of what a watch tells.
    pub(super) fn hear(&mut self, selection: &Selection, told: Told<Read>) -> Vec<Change> {
        let kind = selection.kind;
        let of_kind = self.watched.iter().filter(|(it, _)| it.kind == kind);
        let were_some = self.expected.contains(&kind)
            || of_kind.into_iter().any(|(_, it)| !it.objects.is_empty());
        let Some(watched) = self.watched.get_mut(selection) else {
            return Vec::new();
        };
        let changes = match told {
            Told::Silent(why) => {
                watched.silent = Some(why);
                return Vec::new();
            }
            Told::Answers => {
                watched.silent = None;
                return Vec::new();
            }
            // Without the definition there is no controller either: that would be no reason to take
            // all sets for empty.
            Told::Unknown if kind == Kind::NetworkQoSPeerSlice => {
                let why = "404: it does not know this kind, which comes with netqos-controller";
                watched.silent = Some(why.to_owned());
                return Vec::new();
            }
            Told::Unknown => {
                let since = *watched.unknown.get_or_insert_with(Instant::now);
                if were_some && since.elapsed() < self.disbelief {
                    let why = "404: it does not know this kind, of which there were objects";
                    watched.silent = Some(why.to_owned());
                    return Vec::new();
                }
                watched.spoke = true;
                self.replace(selection, BTreeMap::new())
            }
            Told::All(all) => {
                watched.unknown = None;
                watched.spoke = true;
                self.replace(selection, all)
            }
            Told::There(name, read) => self.put(selection, name, Some(read)),
            Told::Gone(name) => self.put(selection, name, None),
        };
        if let Some(watched) = self.watched.get_mut(selection) {
            watched.silent = None;
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
        let known = known.into_iter().flat_map(|it| it.objects.keys());
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
        let Some(watched) = self.watched.get_mut(selection) else {
            return Vec::new();
        };
        let file = key(selection.kind, &name);
        let Some(read) = read else {
            watched.objects.remove(&name);
            return self.objects.put(&file, Vec::new());
        };
        let Read {
            object,
            generation,
            text,
        } = read;
        let (objects, problem) = match object {
            Ok(object) => (vec![object], None),
            Err(problem) => (vec![], Some(problem)),
        };
        let known = Known {
            generation,
            text,
            problem,
        };
        watched.objects.insert(name, known);
        self.objects.put(&file, objects)
    }

    /// Takes what was written down by an earlier process for what was not told yet. True when
    /// nothing is missing then.
    pub(super) fn remember(
        &mut self,
        mut saved: impl FnMut(Kind) -> Option<(u64, BTreeMap<ObjectName, Read>)>,
    ) -> (bool, Vec<Change>) {
        let waiting = self.watched.iter().filter(|(_, it)| !it.is_known());
        let found: Option<Vec<_>> = waiting
            .map(|(selection, _)| Some((saved(selection.kind)?, selection.clone())))
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

    /// True when everything was told at least once, or written down by an earlier process, and the node is one of the cluster: under a name
    /// that is none, it would have no pods, and all that is in force would go.
    pub(super) fn is_known(&self) -> bool {
        self.watched.values().all(Watched::is_known) && self.knows_node()
    }

    /// True when all is told but slices, of which there may be a watch that waits.
    pub(super) fn is_told(&self) -> bool {
        let others = self.watched.iter();
        let mut others = others.filter(|(it, _)| it.kind != Kind::NetworkQoSPeerSlice);
        others.all(|(_, watched)| watched.spoke) && self.knows_node()
    }

    /// True when there is an object of this node.
    pub(super) fn knows_node(&self) -> bool {
        let mut watched = self.watched.iter();
        watched.any(|(it, watched)| it.kind == Kind::Node && !watched.objects.is_empty())
    }

    /// What is still waited for, and why it does not come.
    pub(super) fn waiting(&self) -> String {
        let mut kinds = Vec::new();
        let mut why = BTreeSet::new();
        for (selection, watched) in self.watched.iter().filter(|(_, it)| !it.spoke) {
            kinds.push(selection.kind.plural());
            why.extend(&watched.silent);
        }
        kinds.dedup();
        if kinds.is_empty() && !self.knows_node() {
            return format!(
                "the cluster has no Node {}: --node has to be the nodeName of its pods",
                self.node
            );
        }
        if kinds.is_empty() {
            return String::new();
        }
        let why: Vec<&str> = why.into_iter().map(String::as_str).collect();
        match why.is_empty() {
            true => format!("{} were not listed yet", kinds.join(", ")),
            false => format!("{} cannot be listed: {}", kinds.join(", "), why.join("; ")),
        }
    }

    /// The texts of all objects of a kind, to be written down.
    pub(super) fn texts(&self, kind: Kind) -> Vec<&RawValue> {
        let watched = self.watched.iter().filter(|(it, _)| it.kind == kind);
        let known = watched.flat_map(|(_, watched)| watched.objects.values());
        known.filter_map(|known| known.text.as_deref()).collect()
    }

    /// The generations of all policies that can be read.
    pub(super) fn policies(&self) -> BTreeMap<ObjectName, i64> {
        let kind = |(it, _): &(&Selection, &Watched)| it.kind == Kind::NetworkQoS;
        let watched = self.watched.iter().filter(kind);
        let known = watched.flat_map(|(_, watched)| &watched.objects);
        let readable = known.filter(|(_, known)| known.problem.is_none());
        readable
            .filter_map(|(name, known)| Some((name.clone(), known.generation?)))
            .collect()
    }

    /// The text of an object, and its generation.
    pub(super) fn stands(&self, kind: Kind, name: &ObjectName) -> Stands {
        let watched = self.watched.iter().filter(|(it, _)| it.kind == kind);
        let mut known = watched.filter_map(|(_, watched)| watched.objects.get(name));
        let known = known.next_back();
        Stands {
            text: known.and_then(|known| known.text.clone()),
            generation: known.and_then(|known| known.generation),
        }
    }

    /// These changes, and how things are now.
    pub(super) fn batch(&self, changes: Vec<Change>) -> Batch {
        let mut problems = self.objects.problems(str::to_owned);
        let known = self.watched.values().flat_map(|it| it.objects.values());
        problems.extend(known.filter_map(|known| known.problem.clone()));
        problems.extend(self.silence());
        problems.sort();
        Batch {
            source: SOURCE,
            changes,
            problems,
            objects: self.objects.counts(),
            policies: BTreeMap::new(),
        }
    }

    /// That the server does not answer: one problem, whatever was asked.
    fn silence(&self) -> Option<Problem> {
        let mut kinds = Vec::new();
        let mut why = BTreeSet::new();
        let mut oldest: Option<u64> = None;
        for (selection, watched) in &self.watched {
            if let Some(silent) = &watched.silent {
                kinds.push(selection.kind.plural());
                why.insert(silent.as_str());
            }
            oldest = oldest.into_iter().chain(watched.remembered).min();
        }
        kinds.dedup();
        if kinds.is_empty() && oldest.is_none() {
            return None;
        }
        let why = why.into_iter().collect::<Vec<_>>().join("; ");
        let stays = match oldest {
            None => "what was known before stays in force".to_owned(),
            Some(at) => format!(
                "what an agent before this one knew is in force (written down {})",
                stamp(at)
            ),
        };
        Some(Problem {
            object: ObjectRef::Node(self.node.clone()),
            reason: Reason::ApiUnavailable,
            message: format!(
                "the API server does not tell of {}: {why}; {stays}, and it is asked again",
                kinds.join(", ")
            ),
        })
    }
}

/// When it was: not how long ago, since a problem's text must not change by itself.
fn stamp(at: u64) -> String {
    let at = std::time::UNIX_EPOCH + Duration::from_secs(at);
    let at = k8s_openapi::jiff::Timestamp::try_from(at);
    at.map_or_else(|_| "at an unknown time".to_owned(), |at| at.to_string())
}
