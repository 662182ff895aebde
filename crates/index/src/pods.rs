//! Pods, found by name, by namespace, by label, and by the networks that their statuses name.

use std::collections::BTreeSet;
use std::sync::Arc;

use netqos_core::ObjectName;
use netqos_core::objects::{NetworkName, Pod};

use crate::addresses::AddressKey;
use crate::combinations::CombinationKey;
use crate::hash::HashMap;
use crate::slab::Slab;

/// A pod as long as it is there.
pub(crate) type PodKey = u32;

/// The pods.
#[derive(Debug, Default)]
pub(crate) struct Pods {
    entries: Slab<Entry>,
    by_name: HashMap<ObjectName, PodKey>,
    pub(crate) by_namespace: HashMap<Arc<str>, BTreeSet<PodKey>>,
    pub(crate) by_label: HashMap<Arc<str>, HashMap<Arc<str>, BTreeSet<PodKey>>>,
    by_network: HashMap<NetworkName, BTreeSet<PodKey>>,
}

/// A pod, and what it is part of.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) pod: Pod,
    /// The sets in force that it belongs to.
    pub(crate) sets: Option<CombinationKey>,
    /// The addresses that count as its own, sorted.
    pub(crate) claims: Vec<AddressKey>,
}

impl Pods {
    pub(crate) fn insert(&mut self, pod: Pod) -> PodKey {
        let key = self.entries.insert(Entry {
            pod,
            sets: None,
            claims: Vec::new(),
        });
        self.file(key);
        key
    }

    /// Another state of the same pod. Gives back the one before.
    pub(crate) fn replace(&mut self, key: PodKey, pod: Pod) -> Option<Pod> {
        let before = &self.entries.get(key)?.pod;
        let filed_alike = before.labels == pod.labels
            && before.addresses.len() == pod.addresses.len()
            && before
                .addresses
                .iter()
                .zip(&pod.addresses)
                .all(|(a, b)| a.network == b.network);
        if filed_alike {
            let entry = self.entries.get_mut(key)?;
            return Some(std::mem::replace(&mut entry.pod, pod));
        }
        self.unfile(key);
        let entry = self.entries.get_mut(key)?;
        let before = std::mem::replace(&mut entry.pod, pod);
        self.file(key);
        Some(before)
    }

    pub(crate) fn remove(&mut self, key: PodKey) -> Option<Entry> {
        self.unfile(key);
        self.entries.remove(key)
    }

    /// Keys of removed pods may be given to others from now on.
    pub(crate) fn settle(&mut self) {
        self.entries.settle();
    }

    pub(crate) fn find(&self, name: &ObjectName) -> Option<PodKey> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn get(&self, key: PodKey) -> Option<&Entry> {
        self.entries.get(key)
    }

    pub(crate) fn get_mut(&mut self, key: PodKey) -> Option<&mut Entry> {
        self.entries.get_mut(key)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (PodKey, &Entry)> {
        self.entries.iter()
    }

    pub(crate) fn in_namespace(&self, namespace: &Arc<str>) -> impl Iterator<Item = PodKey> {
        let keys = self.by_namespace.get(namespace);
        keys.into_iter().flatten().copied()
    }

    /// The pods whose status names this network so.
    pub(crate) fn on_network(&self, name: &NetworkName) -> impl Iterator<Item = PodKey> {
        let keys = self.by_network.get(name);
        keys.into_iter().flatten().copied()
    }

    fn file(&mut self, key: PodKey) {
        let Some(Entry { pod, .. }) = self.entries.get(key) else {
            return;
        };
        self.by_name.insert(pod.id.name.clone(), key);
        let namespace = pod.id.name.namespace.clone();
        self.by_namespace.entry(namespace).or_default().insert(key);
        for (label, value) in &pod.labels {
            let by_value = self.by_label.entry(label.clone()).or_default();
            by_value.entry(value.clone()).or_default().insert(key);
        }
        for addresses in &pod.addresses {
            if addresses.network != NetworkName::Default {
                let on_network = self.by_network.entry(addresses.network.clone());
                on_network.or_default().insert(key);
            }
        }
    }

    fn unfile(&mut self, key: PodKey) {
        let Some(Entry { pod, .. }) = self.entries.get(key) else {
            return;
        };
        self.by_name.remove(&pod.id.name);
        remove_from(&mut self.by_namespace, &pod.id.name.namespace, key);
        for (label, value) in &pod.labels {
            if let Some(by_value) = self.by_label.get_mut(label) {
                remove_from(by_value, value, key);
                if by_value.is_empty() {
                    self.by_label.remove(label);
                }
            }
        }
        for addresses in &pod.addresses {
            remove_from(&mut self.by_network, &addresses.network, key);
        }
    }
}

fn remove_from<K: std::hash::Hash + Eq>(
    map: &mut HashMap<K, BTreeSet<PodKey>>,
    from: &K,
    key: PodKey,
) {
    if let Some(keys) = map.get_mut(from) {
        keys.remove(&key);
        if keys.is_empty() {
            map.remove(from);
        }
    }
}

#[cfg(test)]
mod tests {
    use netqos_testkit::index::objects;

    use super::*;

    fn pod(app: &str, network: &str) -> Pod {
        Pod {
            addresses: vec![objects::on(NetworkName::Cni(network.into()), &[])],
            ..objects::pod("a/p", &[("app", app)], &[])
        }
    }

    #[test]
    fn a_pod_is_filed_as_it_is_now_and_leaves_nothing_when_it_goes() {
        let mut pods = Pods::default();
        let key = pods.insert(pod("web", "one"));
        assert!(pods.replace(key, pod("db", "two")).is_some());
        let on = |pods: &Pods, name: &str| pods.on_network(&NetworkName::Cni(name.into())).count();
        assert_eq!((on(&pods, "one"), on(&pods, "two")), (0, 1));
        assert_eq!(pods.by_label.values().map(HashMap::len).sum::<usize>(), 1);
        pods.remove(key);
        assert!(pods.by_name.is_empty() && pods.by_namespace.is_empty());
        assert!(pods.by_label.is_empty() && pods.by_network.is_empty());
    }
}
