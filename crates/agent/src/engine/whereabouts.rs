//! Where pods are, from all who say it: what the plugin or a runtime remembers of a CNI call counts, and
//! what a pod's cgroup leads to only where that is an interface that nobody remembers.
//!
//! A pod is its sandbox. Those that had its name before, or have it next, have another uid: nothing that is said of one pod
//! is for a sandbox of another.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use netqos_core::objects::{LocalInterface, NetworkName, Pod};
use netqos_core::{FIRST_INTERFACE, ObjectName, ObjectRef, PodId, Problem, Reason};
use netqos_index::Change;

/// How long a sandbox may wait for the object of its pod until that is told of.
const LONG: Duration = Duration::from_secs(10 * 60);

/// By what the pod of an object is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Object {
    id: PodId,
    config_hash: Option<Arc<str>>,
}

/// Sandboxes of a pod with this uid, and its interfaces.
type Sandboxes = (Option<Arc<str>>, Vec<LocalInterface>);

/// What was said of where pods are.
#[derive(Debug, Default)]
pub(super) struct Whereabouts {
    /// By the plugin and by runtimes' caches, with the uid that the runtime was given. The last is the one that came last.
    remembered: HashMap<ObjectName, Vec<Sandboxes>>,
    /// Sandboxes that are not those of the object with their pod's name, by name and uid, and since when.
    strange: HashMap<(ObjectName, Arc<str>), Instant>,
    /// By cgroups, by the pods' uids.
    in_cgroups: BTreeMap<Arc<str>, LocalInterface>,
    /// What counts, as it was told last, by the way: all that is known of a pod that has any.
    counts: HashMap<ObjectName, Sandboxes>,
}

impl Object {
    pub(super) fn of(pod: &Pod) -> Self {
        Self {
            id: pod.id.clone(),
            config_hash: pod.config_hash.clone(),
        }
    }

    /// The object's uid.
    pub(super) fn uid(&self) -> &Arc<str> {
        &self.id.uid
    }

    /// How sure it is that sandboxes with this uid, of this pod's name, are the pod's; `None` if they are another's. A
    /// tenant can write any hash, and the runtime may say no uid.
    fn likeness(&self, uid: Option<&Arc<str>>) -> Option<u8> {
        match uid {
            Some(uid) if self.id.is_known_by(uid) => Some(2),
            Some(uid) => (self.config_hash.as_ref() == Some(uid)).then_some(1),
            None => Some(0),
        }
    }
}

impl Whereabouts {
    /// The plugin or a runtime remembers this of the sandboxes of a pod with this uid.
    pub(super) fn remember(
        &mut self,
        pod: &ObjectName,
        uid: Option<Arc<str>>,
        interfaces: Vec<LocalInterface>,
    ) {
        let of_name = self.remembered.entry(pod.clone()).or_default();
        of_name.retain(|(known, _)| *known != uid);
        if !interfaces.is_empty() {
            of_name.push((uid, interfaces));
        }
        if of_name.is_empty() {
            self.remembered.remove(pod);
        }
    }

    /// This is all that was found by cgroups. Says which uids it is another for than before.
    pub(super) fn find(&mut self, found: BTreeMap<Arc<str>, LocalInterface>) -> Vec<Arc<str>> {
        let before = std::mem::replace(&mut self.in_cgroups, found);
        let mut other: Vec<Arc<str>> = Vec::new();
        for (uid, interface) in &self.in_cgroups {
            if before.get(uid) != Some(interface) {
                other.push(uid.clone());
            }
        }
        let gone = before.into_keys();
        other.extend(gone.filter(|uid| !self.in_cgroups.contains_key(uid)));
        other
    }

    /// What to tell of a pod that there is this object of, or none; `None` where that was told.
    pub(super) fn settle(&mut self, pod: &ObjectName, object: Option<&Object>) -> Option<Change> {
        let of_name = self.remembered.get(pod).map_or(&[][..], Vec::as_slice);
        let likeness = |uid: Option<&Arc<str>>| match object {
            Some(object) => object.likeness(uid),
            None => Some(uid.is_some().into()),
        };
        let own = of_name.iter();
        let own = own.filter_map(|it| Some((likeness(it.0.as_ref())?, it)));
        let remembered = own.max_by_key(|(likeness, _)| *likeness);
        let remembered = remembered.map(|(_, sandboxes)| sandboxes);
        let mut others: BTreeSet<&Arc<str>> =
            of_name.iter().filter_map(|it| it.0.as_ref()).collect();
        others.retain(|uid| object.is_some() && likeness(Some(uid)).is_none());
        self.strange
            .retain(|(name, uid), _| name != pod || others.contains(uid));
        for uid in others {
            let sandbox = (pod.clone(), uid.clone());
            self.strange.entry(sandbox).or_insert_with(Instant::now);
        }
        let uid = object.map(Object::uid);
        let found = uid.and_then(|uid| Some((uid, self.in_cgroups.get(uid)?)));
        let now = match (remembered, found) {
            (None, Some((uid, interface))) => Some((Some(uid.clone()), vec![interface.clone()])),
            // Of other networks alone: the plugin may be in no list but theirs.
            (Some((of, interfaces)), Some((_, interface)))
                if interface.attach.interface().is_some()
                    && interfaces.iter().all(|it| it.name != interface.name) =>
            {
                let mut all = interfaces.clone();
                all.push(interface.clone());
                all.sort_by(|a, b| a.name.cmp(&b.name));
                Some((of.clone(), all))
            }
            (remembered, _) => remembered.cloned(),
        };
        if self.counts.get(pod) == now.as_ref() {
            return None;
        }
        match &now {
            Some(now) => self.counts.insert(pod.clone(), now.clone()),
            None => self.counts.remove(pod),
        };
        let (uid, interfaces) = now.unwrap_or_default();
        Some(Change::Attachments {
            pod: pod.clone(),
            uid,
            interfaces,
        })
    }

    /// The interfaces of a pod.
    pub(super) fn of(&self, pod: &ObjectName) -> &[LocalInterface] {
        self.counts
            .get(pod)
            .map_or(&[], |(_, interfaces)| interfaces)
    }

    /// The sandboxes that have waited for the object of their pod for long.
    pub(super) fn problems(&self, now: Instant) -> impl Iterator<Item = Problem> {
        let long = self.strange.iter();
        let long = long.filter(move |(_, since)| now.duration_since(**since) >= LONG);
        long.map(|((pod, uid), _)| Problem {
            object: ObjectRef::Pod(pod.clone()),
            reason: Reason::EndpointUnreachable,
            message: format!(
                "a sandbox with its name is of uid {uid}, and its object of another: limits that a plugin made there stay as \
                 they are"
            ),
        })
    }

    /// The interface of a pod that its annotations are for.
    pub(super) fn first(&self, pod: &ObjectName) -> Option<&LocalInterface> {
        let interfaces = self.of(pod);
        let is_first = |it: &&LocalInterface| {
            it.network == NetworkName::Default || &*it.name == FIRST_INTERFACE
        };
        interfaces.iter().find(is_first).or(interfaces.first())
    }

    /// The interfaces of the other sandboxes with this pod's name.
    pub(super) fn others(&self, pod: &ObjectName) -> impl Iterator<Item = &LocalInterface> {
        let own = self.counts.get(pod).map(|(uid, _)| uid);
        let of_name = self.remembered.get(pod).into_iter().flatten();
        let others = of_name.filter(move |(uid, _)| Some(uid) != own);
        others.flat_map(|(_, interfaces)| interfaces)
    }

    /// All interfaces.
    pub(super) fn all(&self) -> impl Iterator<Item = &LocalInterface> {
        let remembered = self.remembered.values().flatten();
        let all = self.counts.values().chain(remembered);
        all.flat_map(|(_, interfaces)| interfaces)
    }
}

#[cfg(test)]
mod tests {
    use netqos_core::plan::{Attach, Interface};

    use super::*;

    fn interface(name: &str) -> LocalInterface {
        LocalInterface {
            network: NetworkName::Default,
            name: name.into(),
            addresses: BTreeSet::new(),
            attach: Attach::Unsupported {
                reason: String::new(),
            },
            recorded: None,
        }
    }

    /// Where the pod with this uid is, as it is told.
    fn told(places: &mut Whereabouts, uid: Option<&str>) -> Option<Vec<String>> {
        let name = ObjectName::new("games", "a");
        let object = uid.map(|uid| Object {
            id: PodId {
                name: name.clone(),
                uid: uid.into(),
            },
            config_hash: Some("hash".into()),
        });
        match places.settle(&name, object.as_ref())? {
            Change::Attachments {
                pod, interfaces, ..
            } => {
                assert_eq!(places.of(&pod), interfaces);
                let names = interfaces.iter().map(|one| one.name.to_string());
                Some(names.collect())
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_a_runtime_remembers_counts_and_a_cgroup_where_none_does() {
        let mut places = Whereabouts::default();
        let pod = ObjectName::new("games", "a");
        let found = BTreeMap::from([("1".into(), interface("cgroup"))]);
        assert_eq!(places.find(found.clone()), ["1".into()]);
        assert_eq!(places.find(found.clone()), []);
        assert_eq!(told(&mut places, None), None, "nobody knows whose it is");
        assert_eq!(told(&mut places, Some("1")), Some(vec!["cgroup".into()]));
        assert_eq!(told(&mut places, Some("1")), None, "once");
        places.remember(&pod, Some("1".into()), vec![interface("cache")]);
        assert_eq!(told(&mut places, Some("1")), Some(vec!["cache".into()]));
        // What is remembered is of the pod that had the name before.
        assert_eq!(
            places
                .find(BTreeMap::from([("2".into(), interface("new"))]))
                .len(),
            2
        );
        assert_eq!(told(&mut places, Some("2")), Some(vec!["new".into()]));
        places.remember(&pod, Some("1".into()), vec![]);
        places.remember(&pod, None, vec![interface("cache")]);
        assert_eq!(told(&mut places, Some("2")), Some(vec!["cache".into()]));
        places.remember(&pod, None, vec![]);
        assert_eq!(told(&mut places, Some("2")), Some(vec!["new".into()]));
        assert_eq!(places.find(BTreeMap::new()), ["2".into()]);
        assert_eq!(told(&mut places, Some("2")), Some(vec![]));
        assert_eq!(places.all().count(), 0);
    }

    /// A StatefulSet gives a name to the next pod at once, and the API server may tell of that late.
    #[test]
    fn what_is_said_of_a_pod_is_for_its_own_sandbox() {
        let mut places = Whereabouts::default();
        let pod = ObjectName::new("games", "a");
        places.remember(&pod, Some("1".into()), vec![interface("first")]);
        assert_eq!(told(&mut places, Some("1")), Some(vec!["first".into()]));
        places.remember(&pod, Some("2".into()), vec![interface("second")]);
        assert_eq!(told(&mut places, Some("1")), None);
        assert_eq!(told(&mut places, Some("2")), Some(vec!["second".into()]));
        assert_eq!(told(&mut places, Some("1")), Some(vec!["first".into()]));
        let later = |after| Instant::now() + after;
        assert_eq!(places.problems(later(LONG)).count(), 1);
        // The one sandbox left is not that object's.
        places.remember(&pod, Some("1".into()), vec![]);
        assert_eq!(told(&mut places, Some("1")), Some(vec![]));
        assert_eq!(places.others(&pod).count(), 1);
        assert_eq!(places.problems(later(LONG / 2)).count(), 0);
        assert_eq!(places.problems(later(LONG)).count(), 1);
        assert_eq!(told(&mut places, Some("2")), Some(vec!["second".into()]));
        assert_eq!(places.others(&pod).count(), 0);
        assert_eq!(places.problems(later(LONG)).count(), 0);
    }

    /// The kubelet's cgroup of a static pod has the name of its hash, which anyone who may annotate a pod can write.
    #[test]
    fn hash_of_a_static_pod_counts_only_with_its_name() {
        let mut places = Whereabouts::default();
        places.find(BTreeMap::from([("hash".into(), interface("victim"))]));
        assert_eq!(told(&mut places, Some("1")), None);
        let pod = ObjectName::new("games", "a");
        places.remember(&pod, Some("hash".into()), vec![interface("own")]);
        assert_eq!(told(&mut places, Some("1")), Some(vec!["own".into()]));
        assert_eq!(places.problems(Instant::now() + LONG).count(), 0);
        // The uid of a pod that had the name before, written as a hash.
        places.remember(&pod, Some("1".into()), vec![interface("next")]);
        assert_eq!(told(&mut places, Some("1")), Some(vec!["next".into()]));
        places.remember(&pod, Some("hash".into()), vec![interface("again")]);
        assert_eq!(told(&mut places, Some("1")), None);
    }

    /// The plugin may be in the list of a second network alone.
    #[test]
    fn an_interface_that_nobody_remembers_is_found_by_the_cgroup() {
        let mut places = Whereabouts::default();
        let there = |name: &str| LocalInterface {
            attach: Attach::HostVeth(Interface {
                container: "c".to_owned(),
                network: "net".to_owned(),
                name: name.to_owned(),
                netns: "/run/netns/x".into(),
                ends: None,
            }),
            ..interface(name)
        };
        let pod = ObjectName::new("games", "a");
        places.remember(&pod, Some("1".into()), vec![there("net1")]);
        assert_eq!(told(&mut places, Some("1")), Some(vec!["net1".into()]));
        // One that cannot be reached is said of a pod of which nothing else is known.
        places.find(BTreeMap::from([("1".into(), interface("eth0"))]));
        assert_eq!(told(&mut places, Some("1")), None);
        places.find(BTreeMap::from([("1".into(), there("eth0"))]));
        let both = vec!["eth0".into(), "net1".into()];
        assert_eq!(told(&mut places, Some("1")), Some(both));
        places.remember(&pod, Some("1".into()), vec![there("eth0"), there("net1")]);
        assert_eq!(told(&mut places, Some("1")), None);
    }
}
