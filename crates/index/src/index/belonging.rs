//! Pods that come, change and go: which sets and addresses they are part of.

use netqos_core::objects::Pod;
use netqos_core::plan::{PeerSet, SetId};

use super::Index;
use crate::addresses::AddressKey;
use crate::combinations::Step;
use crate::local::is_on_networks;
use crate::places::places;
use crate::pods::PodKey;

impl Index {
    pub(super) fn put_pod(&mut self, mut pod: Pod) {
        self.strings.string(&mut pod.id.name.namespace);
        self.strings.labels(&mut pod.labels);
        if let Some(node) = &mut pod.node {
            self.strings.string(node);
        }
        let known = self.pods.find(&pod.id.name);
        let key = match known.and_then(|key| Some((key, &self.pods.get(key)?.pod))) {
            Some((_, known)) if *known == pod => return,
            Some((key, known)) if known.id == pod.id => {
                self.pods.replace(key, pod);
                key
            }
            Some((key, _)) => {
                self.remove_pod(key);
                self.pods.insert(pod)
            }
            None => self.pods.insert(pod),
        };
        self.reconsider(key);
    }

    pub(super) fn remove_pod(&mut self, key: PodKey) {
        let Some(entry) = self.pods.get(key) else {
            return;
        };
        let namespace = entry.pod.id.name.namespace.clone();
        if self.local.enlist(key, &namespace, false) {
            self.dirty_pods.insert(key);
        }
        self.become_part(key, &[], Vec::new());
        self.pods.remove(key);
    }

    /// Finds out anew what a pod is part of.
    pub(super) fn reconsider(&mut self, key: PodKey) {
        let Some(entry) = self.pods.get(key) else {
            return;
        };
        let pod = &entry.pod;
        let namespace = pod.id.name.namespace.clone();
        let here = self.local.has(pod);
        let (mut sets, mut claims) = (Vec::new(), Vec::new());
        if is_on_networks(pod) {
            sets = self.sets.of(pod, &self.namespaces.labels(&namespace));
            let interfaces = self.local.interfaces(pod);
            for place in places(pod, interfaces, &self.networks) {
                let network = place.network;
                let addresses = place.addresses.into_iter();
                let addresses = addresses.map(|address| (network.clone(), address));
                claims.extend(addresses.map(|address| self.addresses.key(address)));
            }
            claims.sort_unstable();
            claims.dedup();
            claims.shrink_to_fit();
        }
        self.become_part(key, &sets, claims);
        if self.local.enlist(key, &namespace, here) {
            self.dirty_pods.insert(key);
        }
    }

    /// A pod belongs to these sets with these addresses, and to no others.
    fn become_part(&mut self, key: PodKey, sets: &[SetId], claims: Vec<AddressKey>) {
        let Some(entry) = self.pods.get_mut(key) else {
            return;
        };
        let before = entry.sets;
        let same_sets = self.combinations.sets(before) == sets;
        if same_sets && entry.claims == claims {
            return;
        }
        if !same_sets {
            entry.sets = self.combinations.acquire(sets);
            self.combinations.release(before);
        }
        for address in &entry.claims {
            let stays = claims.binary_search(address).is_ok();
            if !stays {
                self.addresses.leave(*address, key);
            }
            if before.is_some() && !(stays && same_sets) {
                self.addresses.touch(*address);
            }
        }
        for address in &claims {
            let stayed = entry.claims.binary_search(address).is_ok();
            if !stayed {
                self.addresses.claim(*address, key);
            }
            if entry.sets.is_some() && !(stayed && same_sets) {
                self.addresses.touch(*address);
            }
        }
        entry.claims = claims;
    }

    /// The pods that belong to a set get into it, when it is asked for and was not before, or out
    /// of it.
    pub(super) fn take_step(&mut self, set: &PeerSet, mut step: Step) {
        for key in self.pods.of(set, &self.namespaces) {
            let Some(entry) = self.pods.get_mut(key) else {
                continue;
            };
            if is_on_networks(&entry.pod) {
                entry.sets = self.combinations.take(&mut step, entry.sets);
                self.addresses.touch_on(&set.network, &entry.claims);
            }
        }
    }
}
