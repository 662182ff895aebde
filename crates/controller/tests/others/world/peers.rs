//! What is published of peers.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt as _;
use kube::api::DynamicObject;
use netqos_k8s::PEER_SET_LABEL;

use super::{HOME, World};

impl World {
    /// The addresses of the sets that are published, by the slice's namespace and set.
    pub(crate) fn published(&self) -> BTreeMap<(String, String), BTreeSet<String>> {
        let mut sets: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
        for slice in self.slices() {
            let labels = slice.labels();
            let set = labels.get(PEER_SET_LABEL).cloned().unwrap_or_default();
            let addresses = slice.data["addresses"].as_array().unwrap().iter();
            let addresses = addresses.map(|it| it.as_str().unwrap().to_owned());
            let key = (slice.namespace().unwrap_or_default(), set);
            sets.entry(key).or_default().extend(addresses);
        }
        sets
    }

    pub(crate) fn slices(&self) -> Vec<DynamicObject> {
        let of = ("netqos.io/v1alpha1", "NetworkQoSPeerSlice", "");
        let mine = [self.namespace.as_str(), HOME];
        let slices = self.list(of).into_iter();
        slices
            .filter(|it| mine.contains(&it.namespace().unwrap_or_default().as_str()))
            .collect()
    }

    /// Waits until the sets that are published have these addresses.
    pub(crate) fn wait_for_peers(&self, sets: &[&[&str]]) {
        let mut right: Vec<BTreeSet<String>> = sets
            .iter()
            .map(|set| set.iter().map(|it| (*it).to_owned()).collect())
            .collect();
        right.sort();
        let mut last = Vec::new();
        self.eventually(&format!("{right:?} are not published"), || {
            let published = self.published();
            last = published.into_values().collect();
            last.sort();
            last == right
        });
    }
}
