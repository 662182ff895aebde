//! What waits until it is known who is meant.
//!
//! A policy says what it means only with the addresses of the pods that its rules go to. The controller
//! publishes them, so they come after the policy: without them the new rules would go
//! nowhere, and what they replace would be lifted. So a policy is told to the index when all sets
//! that it names are published; until then what was told of it before stays, and it alone waits.
//!
//! ```text
//!   policy ──► told ──┬─ all its sets are published ──► released, to the index
//!                     └─ not yet: as it was released before, or as an earlier process wrote down
//! ```
//!
//! A set is published when its head is there ([`netqos_index::head_name`]). A set whose head goes is
//! not published any more: its slices stay as they were while what is in force names it, since the
//! controller may know of another policy before this node does, and takes nothing from anybody by it. A policy that is for no
//! pod of the node is not released, and its sets are not asked for. What decides on which networks
//! policies are in force, and whether quotas keep them out, waits too while sets that released
//! policies would name by it are not published.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use netqos_core::plan::{PeerSet, SetId};
use netqos_core::{Labels, ObjectName, ObjectRef, Policy, PolicyVersion, Problem, Reason};
use netqos_index::{Change, PolicySets, head_name};
use serde_json::value::RawValue;

use super::seen::Stands;

#[cfg(test)]
mod tests;
mod wanted;

pub(super) use wanted::Wanted;

/// For how long a pod that is gone counts: another one with the same labels often takes its place.
const LINGER: Duration = Duration::from_secs(60);
/// How long a policy may wait before that is a problem.
const PATIENCE: Duration = Duration::from_secs(2);

/// Sets by their names.
type Sets = BTreeMap<SetId, Arc<PeerSet>>;

/// What is known of policies, and what the index was told of them.
#[derive(Debug)]
pub(super) struct Gate {
    controller: Arc<str>,
    sets: PolicySets,
    pods: BTreeMap<ObjectName, LocalPod>,
    policies: BTreeMap<ObjectName, Entry>,
    /// The heads that are there.
    heads: BTreeSet<ObjectName>,
    /// The sets of slices that the index knows.
    slices: BTreeMap<ObjectName, SetId>,
    /// Those of them that are gone, and stay while their sets are named.
    kept: BTreeSet<ObjectName>,
    /// Changes that may have released policies name other sets.
    held: Vec<Change>,
    /// Policies that are to be looked at.
    dirty: BTreeSet<ObjectName>,
    /// Any policy may name other sets than before.
    renamed: bool,
    wanted: Wanted,
    /// What is known of the controller, where it was asked for.
    leader: Option<String>,
}

/// A pod of this node.
#[derive(Debug)]
struct LocalPod {
    uid: Arc<str>,
    labels: Labels,
    gone: Option<Instant>,
}

#[derive(Debug, Default)]
struct Entry {
    /// What the cluster says.
    told: Option<Policy>,
    /// The sets that it names.
    names: Sets,
    /// True when it is for a pod of this node.
    selects: bool,
    /// What an earlier process had released.
    remembered: Option<Version>,
    /// What the index was told.
    released: Option<Version>,
    /// Since when what is told waits.
    waiting: Option<Instant>,
}

/// A policy as it was at some time.
#[derive(Clone, Debug)]
struct Version {
    policy: Policy,
    names: Sets,
    stands: Stands,
}

impl Gate {
    /// Nothing is known yet. `controller` is the namespace in which sets of several namespaces are
    /// published.
    pub(super) fn new(controller: Arc<str>) -> Self {
        Self {
            controller,
            sets: PolicySets::default(),
            pods: BTreeMap::new(),
            policies: BTreeMap::new(),
            heads: BTreeSet::new(),
            slices: BTreeMap::new(),
            kept: BTreeSet::new(),
            held: Vec::new(),
            dirty: BTreeSet::new(),
            renamed: false,
            wanted: Wanted::default(),
            leader: None,
        }
    }

    /// Since when something has waited for a controller, where something does.
    pub(super) fn waiting(&self) -> Option<Instant> {
        self.policies.values().filter_map(|it| it.waiting).min()
    }

    /// What is known of the controller, where it was asked for.
    pub(super) fn leader(&self) -> Option<&str> {
        self.leader.as_deref()
    }

    /// What is known of the controller.
    pub(super) fn tell_of_leader(&mut self, said: String) {
        self.leader = Some(said);
    }

    /// Takes note of changes, and gives back those that the index is to be told of. `stands` says how
    /// a policy stands there now.
    pub(super) fn take(
        &mut self,
        changes: Vec<Change>,
        now: Instant,
        stands: impl Fn(&ObjectName) -> Stands,
    ) -> Vec<Change> {
        // Whatever comes first of a set that goes.
        for change in &changes {
            if let Change::PeerSliceGone(name) = change {
                self.heads.remove(name);
            }
        }
        let mut passed = Vec::new();
        for change in changes {
            if self.note(&change, now) {
                passed.push(change);
            }
        }
        self.forget_gone(now);
        if std::mem::take(&mut self.renamed) {
            for (name, entry) in &mut self.policies {
                entry.names = self.sets.of(name);
            }
            self.dirty.extend(self.policies.keys().cloned());
        }
        let dirty = std::mem::take(&mut self.dirty);
        for name in &dirty {
            passed.extend(self.decide(name, now, &stands));
        }
        if !dirty.is_empty() {
            self.find_wanted();
        }
        let mut all = self.policies.values();
        if !self.held.is_empty()
            && all.all(|it| !it.is_in_force_as_told() || self.are_published(&it.names))
        {
            passed.append(&mut self.held);
        }
        passed.extend(self.let_go());
        if self.leader.is_some() && self.waiting().is_none() {
            self.leader = None;
        }
        passed
    }

    /// The slices that were kept for what is not in force any more, or are of sets that are published
    /// again.
    fn let_go(&mut self) -> Vec<Change> {
        if self.kept.is_empty() {
            return Vec::new();
        }
        let published = self.heads.iter().filter_map(|head| self.slices.get(head));
        let published: BTreeSet<SetId> = published.copied().collect();
        let released = self.policies.values().filter_map(|it| it.released.as_ref());
        let named: BTreeSet<SetId> = released.flat_map(|it| it.names.keys()).copied().collect();
        let stays = |set: &SetId| named.contains(set) && !published.contains(set);
        let kept = std::mem::take(&mut self.kept);
        let (kept, over) = kept
            .into_iter()
            .partition(|name| self.slices.get(name).is_some_and(stays));
        self.kept = kept;
        let over: BTreeSet<ObjectName> = over;
        self.slices.retain(|name, _| !over.contains(name));
        over.into_iter().map(Change::PeerSliceGone).collect()
    }

    /// Notes a change. True when the index may be told of it at once.
    fn note(&mut self, change: &Change, now: Instant) -> bool {
        match change {
            Change::Policy(policy) => {
                self.sets.apply(change.clone());
                let entry = self.policies.entry(policy.name.clone()).or_default();
                entry.told = Some(policy.clone());
                entry.names = self.sets.of(&policy.name);
                self.dirty.insert(policy.name.clone());
                false
            }
            Change::PolicyGone(name) => {
                self.sets.apply(change.clone());
                if let Some(entry) = self.policies.get_mut(name) {
                    entry.told = None;
                    self.dirty.insert(name.clone());
                }
                false
            }
            Change::Pod(pod) => {
                if pod.host_network || pod.finished {
                    self.pod_left(&pod.id.name, &pod.id.uid, now);
                    return true;
                }
                let there = LocalPod {
                    uid: pod.id.uid.clone(),
                    labels: pod.labels.clone(),
                    gone: None,
                };
                let name = pod.id.name.clone();
                let before = self.pods.insert(name.clone(), there);
                if before.is_none_or(|before| before.labels != pod.labels) {
                    self.reconsider_namespace(&name.namespace);
                }
                true
            }
            Change::PodGone(id) => {
                self.pod_left(&id.name, &id.uid, now);
                true
            }
            Change::PeerSlice(slice) => {
                self.kept.remove(&slice.name);
                self.slices.insert(slice.name.clone(), slice.set);
                if *slice.name.name == head_name(slice.set) && self.heads.insert(slice.name.clone())
                {
                    let waiting = self.policies.iter();
                    let waiting = waiting.filter(|(_, entry)| entry.waiting.is_some());
                    self.dirty.extend(waiting.map(|(name, _)| name.clone()));
                }
                true
            }
            Change::PeerSliceGone(name) => {
                // Decided by `let_go`, when it is known what is in force.
                if self.slices.contains_key(name) {
                    self.kept.insert(name.clone());
                }
                false
            }
            Change::Profile(_)
            | Change::ProfileGone(_)
            | Change::Service(_)
            | Change::ServiceGone(_)
            | Change::EndpointSlice(_)
            | Change::EndpointSliceGone(_)
            | Change::Attachments { .. } => true,
            // Networks, namespaces, quotas.
            _ => {
                self.sets.apply(change.clone());
                self.held.push(change.clone());
                self.renamed = true;
                false
            }
        }
    }

    fn pod_left(&mut self, name: &ObjectName, uid: &Arc<str>, now: Instant) {
        if let Some(pod) = self.pods.get_mut(name)
            && pod.uid == *uid
        {
            pod.gone.get_or_insert(now);
        }
    }

    fn forget_gone(&mut self, now: Instant) {
        let is_over = |pod: &LocalPod| pod.gone.is_some_and(|gone| gone + LINGER <= now);
        let over = self.pods.iter().filter(|(_, pod)| is_over(pod));
        let over: Vec<ObjectName> = over.map(|(name, _)| name.clone()).collect();
        for name in over {
            self.pods.remove(&name);
            self.reconsider_namespace(&name.namespace);
        }
    }

    fn reconsider_namespace(&mut self, namespace: &Arc<str>) {
        let names = in_namespace(&self.policies, namespace).map(|(name, _)| name.clone());
        self.dirty.extend(names);
    }

    /// What the index is to be told of a policy now.
    fn decide(
        &mut self,
        name: &ObjectName,
        now: Instant,
        stands: impl Fn(&ObjectName) -> Stands,
    ) -> Option<Change> {
        let mut entry = self.policies.remove(name)?;
        let Some(told) = entry.told.clone() else {
            return entry.released.map(|_| Change::PolicyGone(name.clone()));
        };
        let mut pods = in_namespace(&self.pods, &name.namespace);
        entry.selects = pods.any(|(_, pod)| told.pods.matches(&pod.labels));
        let change = if !entry.selects {
            entry.waiting = None;
            entry
                .released
                .take()
                .map(|_| Change::PolicyGone(name.clone()))
        } else if self.are_published(&entry.names) {
            entry.waiting = None;
            entry.remembered = None;
            let is_news = entry.released.as_ref().is_none_or(|it| it.policy != told);
            entry.released = Some(Version {
                policy: told.clone(),
                names: entry.names.clone(),
                stands: stands(name),
            });
            is_news.then_some(Change::Policy(told))
        } else {
            entry.waiting.get_or_insert(now);
            let earlier = entry.remembered.take_if(|it| self.are_published(&it.names));
            earlier.filter(|_| entry.released.is_none()).map(|earlier| {
                entry.released = Some(earlier.clone());
                Change::Policy(earlier.policy)
            })
        };
        self.policies.insert(name.clone(), entry);
        change
    }

    fn are_published(&self, sets: &Sets) -> bool {
        sets.iter().all(|(id, set)| {
            let head = ObjectName {
                namespace: set.home(&self.controller).clone(),
                name: head_name(*id).into(),
            };
            self.heads.contains(&head)
        })
    }

    /// An earlier process had released these. What it had may come into force where what is told
    /// waits; with the next [`Gate::take`].
    pub(super) fn remember(&mut self, versions: impl IntoIterator<Item = (Policy, Stands)>) {
        for (policy, stands) in versions {
            let name = policy.name.clone();
            let names = self.sets.of_version(policy.clone());
            if let Some(entry) = self.policies.get_mut(&name)
                && entry.released.is_none()
            {
                entry.remembered = Some(Version {
                    policy,
                    names,
                    stands,
                });
                self.dirty.insert(name);
            }
        }
    }

    /// The policies of which nothing is in force, and something may have been: any that waits, or,
    /// where it is known what an earlier process had released, those of them.
    pub(super) fn missing(&self, is_remembered: bool) -> impl Iterator<Item = &ObjectName> {
        let missing = self.policies.iter().filter(move |(_, entry)| {
            let may_have_been = !is_remembered || entry.remembered.is_some();
            entry.waiting.is_some() && entry.released.is_none() && may_have_been
        });
        missing.map(|(name, _)| name)
    }

    /// The texts of what was released.
    pub(super) fn texts(&self) -> Vec<&RawValue> {
        let released = self.policies.values().filter_map(|it| it.released.as_ref());
        released
            .filter_map(|it| it.stands.text.as_deref())
            .collect()
    }

    /// Takes out of the versions that are told what waits: what is in force of it is another one,
    /// or none.
    pub(super) fn in_force(&self, versions: &mut BTreeMap<ObjectName, PolicyVersion>) {
        for (name, entry) in &self.policies {
            if entry.waiting.is_none() {
                continue;
            }
            let released = entry.released.as_ref();
            match released.and_then(|it| it.stands.version.clone()) {
                Some(version) => versions.insert(name.clone(), version),
                None => versions.remove(name),
            };
        }
    }

    /// What has waited for long.
    pub(super) fn problems(&self, now: Instant) -> Vec<Problem> {
        let leader = self.leader.as_deref();
        let leader = leader.unwrap_or("look whether netqos-controller runs");
        let waiting = self.policies.iter().filter(|(_, entry)| {
            let since = entry.waiting;
            since.is_some_and(|since| since + PATIENCE <= now)
        });
        waiting
            .map(|(name, entry)| {
                let sets = entry.names.iter();
                let unpublished = sets.filter(|(id, set)| {
                    let one = Sets::from([(**id, Arc::clone(set))]);
                    !self.are_published(&one)
                });
                let homes: BTreeSet<&Arc<str>> = unpublished
                    .map(|(_, set)| set.home(&self.controller))
                    .collect();
                let homes: Vec<&str> = homes.into_iter().map(|it| &**it).collect();
                let meanwhile = match entry.released {
                    Some(_) => "it is in force as it was before",
                    None => "nothing of it is in force",
                };
                Problem {
                    object: ObjectRef::Policy(name.clone()),
                    reason: Reason::PeersUnknown,
                    message: format!(
                        "no controller has published the pods that its rules go to (as \
                         NetworkQoSPeerSlices in {}): {meanwhile} until one has; {leader}",
                        homes.join(", ")
                    ),
                }
            })
            .collect()
    }

    /// When something is to be done or told although nothing changes.
    pub(super) fn due(&self, now: Instant) -> Option<Instant> {
        let pods = self.pods.values().filter_map(|pod| pod.gone);
        let policies = self.policies.values().filter_map(|entry| entry.waiting);
        let gone = pods.map(|gone| gone + LINGER);
        let late = policies.map(|since| since + PATIENCE);
        gone.chain(late.filter(|at| *at > now)).min()
    }
}

impl Entry {
    fn is_in_force_as_told(&self) -> bool {
        let released = self.released.as_ref().map(|it| &it.policy);
        released.is_some() && released == self.told.as_ref()
    }
}

/// What of a map is in one namespace.
fn in_namespace<'m, V>(
    map: &'m BTreeMap<ObjectName, V>,
    namespace: &Arc<str>,
) -> impl Iterator<Item = (&'m ObjectName, &'m V)> + use<'m, V> {
    let first = ObjectName {
        namespace: namespace.clone(),
        name: "".into(),
    };
    let namespace = namespace.clone();
    map.range(first..)
        .take_while(move |(name, _)| name.namespace == namespace)
}
