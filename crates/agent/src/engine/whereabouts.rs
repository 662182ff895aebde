//! Where pods are, from all who say it: what the plugin or a runtime remembers of a CNI call counts, and
//! what a pod's cgroup leads to only where that is an interface that nobody remembers.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use netqos_core::ObjectName;
use netqos_core::objects::{LocalInterface, NetworkName};
use netqos_index::Change;

/// The interface on the default network, as kubelets and runtimes name it.
const FIRST_INTERFACE: &str = "eth0";

/// What was said of where pods are.
#[derive(Debug, Default)]
pub(super) struct Whereabouts {
    /// By the plugin and by runtimes' caches, with the uid that the runtime was given.
    remembered: HashMap<ObjectName, (Option<Arc<str>>, Vec<LocalInterface>)>,
    /// By cgroups, by the pods' uids.
    in_cgroups: BTreeMap<Arc<str>, LocalInterface>,
    /// What counts, as it was told last, by the way: all that is known of a pod that has any.
    counts: HashMap<ObjectName, (Option<Arc<str>>, Vec<LocalInterface>)>,
}

impl Whereabouts {
    /// The plugin or a runtime remembers this of a pod.
    pub(super) fn remember(
        &mut self,
        pod: &ObjectName,
        uid: Option<Arc<str>>,
        interfaces: Vec<LocalInterface>,
    ) {
        match interfaces.is_empty() {
            true => self.remembered.remove(pod),
            false => self.remembered.insert(pod.clone(), (uid, interfaces)),
        };
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

    /// What to tell of a pod that there is an object of with this uid, or none; `None` where that
    /// was told.
    pub(super) fn settle(&mut self, pod: &ObjectName, uid: Option<&Arc<str>>) -> Option<Change> {
        let remembered = self.remembered.get(pod);
        let found = uid.and_then(|uid| Some((uid, self.in_cgroups.get(uid)?)));
        let now = match (remembered, found) {
            // Of the pod that had the name before.
            (Some((Some(of), _)), Some((uid, interface))) if of != uid => {
                Some((Some(uid.clone()), vec![interface.clone()]))
            }
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

    /// The interface of a pod that its annotations are for.
    pub(super) fn first(&self, pod: &ObjectName) -> Option<&LocalInterface> {
        let interfaces = self.of(pod);
        let is_first = |it: &&LocalInterface| {
            it.network == NetworkName::Default || &*it.name == FIRST_INTERFACE
        };
        interfaces.iter().find(is_first).or(interfaces.first())
    }

    /// All interfaces.
    pub(super) fn all(&self) -> impl Iterator<Item = &LocalInterface> {
        self.counts.values().flat_map(|(_, interfaces)| interfaces)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

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
        let uid = uid.map(Arc::from);
        match places.settle(&ObjectName::new("games", "a"), uid.as_ref())? {
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
        places.remember(&pod, None, vec![interface("cache")]);
        assert_eq!(told(&mut places, Some("2")), Some(vec!["cache".into()]));
        places.remember(&pod, None, vec![]);
        assert_eq!(told(&mut places, Some("2")), Some(vec!["new".into()]));
        assert_eq!(places.find(BTreeMap::new()), ["2".into()]);
        assert_eq!(told(&mut places, Some("2")), Some(vec![]));
        assert_eq!(places.all().count(), 0);
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
