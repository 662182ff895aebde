//! Policies, found by the pods that they are for, and their rules on one network.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use netqos_core::plan::{ChainRule, PeerSet, Peers, RuleId, Scope, SetId};
use netqos_core::quota::Excess;
use netqos_core::{Destination, Labels, NetworkChoice, NetworkKey, ObjectName, Policy};

use crate::anchors::Anchors;
use crate::hash::HashMap;

/// A policy as it was at some time: one that changes has another key afterwards, so what was made
/// of a key is right as long as the key is there.
pub(crate) type PolicyKey = u64;

/// The policies.
#[derive(Debug, Default)]
pub(crate) struct Policies {
    last: PolicyKey,
    entries: HashMap<PolicyKey, Entry>,
    by_name: BTreeMap<ObjectName, PolicyKey>,
    by_namespace: HashMap<Arc<str>, Anchors<PolicyKey>>,
    /// Those that refer to networks by name or label.
    with_references: BTreeSet<ObjectName>,
    /// Those that ask for more than they may.
    beyond_quotas: BTreeSet<ObjectName>,
}

/// A policy, and the networks that it is in force on.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) policy: Policy,
    pub(crate) networks: BTreeSet<NetworkKey>,
    /// What it asks for and may not: then nothing of it is in force.
    pub(crate) excesses: Vec<Excess>,
    rules: BTreeMap<NetworkKey, Rules>,
}

/// The rules of a policy on one network.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    /// In order of precedence: the last of the object first.
    pub(crate) rules: Vec<ChainRule>,
    /// The peer sets that they name.
    pub(crate) sets: BTreeMap<SetId, Arc<PeerSet>>,
}

impl Policies {
    /// Puts a policy in whose name is not taken.
    pub(crate) fn insert(&mut self, policy: Policy) -> PolicyKey {
        self.last += 1;
        let key = self.last;
        self.by_name.insert(policy.name.clone(), key);
        if policy.networks != NetworkChoice::Default {
            self.with_references.insert(policy.name.clone());
        }
        let namespace = self.by_namespace.entry(policy.name.namespace.clone());
        namespace.or_default().insert(&policy.pods, key);
        let entry = Entry {
            policy,
            networks: BTreeSet::new(),
            excesses: Vec::new(),
            rules: BTreeMap::new(),
        };
        self.entries.insert(key, entry);
        key
    }

    pub(crate) fn remove(&mut self, key: PolicyKey) -> Option<Policy> {
        let policy = self.entries.remove(&key)?.policy;
        self.by_name.remove(&policy.name);
        self.with_references.remove(&policy.name);
        self.beyond_quotas.remove(&policy.name);
        let namespace = &policy.name.namespace;
        if let Some(anchors) = self.by_namespace.get_mut(namespace) {
            anchors.remove(&policy.pods, key);
            if anchors.is_empty() {
                self.by_namespace.remove(namespace);
            }
        }
        Some(policy)
    }

    pub(crate) fn find(&self, name: &ObjectName) -> Option<PolicyKey> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn get(&self, key: PolicyKey) -> Option<&Entry> {
        self.entries.get(&key)
    }

    pub(crate) fn set_networks(&mut self, key: PolicyKey, networks: BTreeSet<NetworkKey>) {
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.rules.retain(|network, _| networks.contains(network));
            entry.networks = networks;
        }
    }

    /// What a policy asks for and may not. True when it comes into force by that, or out of it.
    pub(crate) fn set_excesses(&mut self, key: PolicyKey, excesses: Vec<Excess>) -> bool {
        let Some(entry) = self.entries.get_mut(&key) else {
            return false;
        };
        let name = &entry.policy.name;
        match excesses.is_empty() {
            true => self.beyond_quotas.remove(name),
            false => self.beyond_quotas.insert(name.clone()),
        };
        let was_in_force = entry.is_in_force();
        entry.excesses = excesses;
        entry.is_in_force() != was_in_force
    }

    /// The policies that ask for more than they may, by name.
    pub(crate) fn beyond_quotas(&self) -> impl Iterator<Item = &Entry> {
        let keys = self.beyond_quotas.iter().filter_map(|name| self.find(name));
        keys.filter_map(|key| self.get(key))
    }

    /// The namespaces with policies.
    pub(crate) fn namespaces(&self) -> impl Iterator<Item = &Arc<str>> {
        self.by_namespace.keys()
    }

    /// The policies that refer to networks by name or label.
    pub(crate) fn with_references(&self) -> impl Iterator<Item = &Policy> {
        let keys = self
            .with_references
            .iter()
            .filter_map(|name| self.find(name));
        keys.filter_map(|key| Some(&self.get(key)?.policy))
    }

    /// The policies in one namespace, by name.
    pub(crate) fn in_namespace(&self, namespace: &Arc<str>) -> impl Iterator<Item = &Entry> {
        let first = ObjectName {
            namespace: namespace.clone(),
            name: "".into(),
        };
        let behind = self.by_name.range(first..);
        behind
            .take_while(move |(name, _)| name.namespace == *namespace)
            .filter_map(|(_, key)| self.entries.get(key))
    }

    /// The policies that are for pods of this namespace with these labels, in order of precedence.
    pub(crate) fn selecting(&self, namespace: &Arc<str>, labels: &Labels) -> Vec<PolicyKey> {
        let Some(anchors) = self.by_namespace.get(namespace) else {
            return Vec::new();
        };
        let mut selecting: Vec<_> = anchors
            .candidates(labels)
            .filter_map(|key| Some((key, self.entries.get(&key)?)))
            .filter(|(_, entry)| entry.is_in_force() && entry.policy.pods.matches(labels))
            .map(|(key, entry)| (key, &entry.policy))
            .collect();
        selecting.sort_by(|(_, a), (_, b)| precedence(a, b));
        selecting.into_iter().map(|(key, _)| key).collect()
    }

    /// The peer sets that rules of a policy name, on all networks that it is in force on.
    pub(crate) fn sets(&self, key: PolicyKey) -> BTreeMap<SetId, Arc<PeerSet>> {
        let mut sets = BTreeMap::new();
        let entry = self.get(key).filter(|entry| entry.is_in_force());
        if let Some(Entry {
            policy, networks, ..
        }) = entry
        {
            for network in networks {
                for rule in &policy.rules {
                    destinations(policy, network, &rule.to, &mut sets);
                }
            }
        }
        sets
    }

    /// The rules of a policy on a network.
    pub(crate) fn rules(&mut self, key: PolicyKey, network: &NetworkKey) -> Option<&Rules> {
        let Entry { policy, rules, .. } = self.entries.get_mut(&key)?;
        let rules = rules.entry(network.clone());
        Some(rules.or_insert_with(|| Rules::of(policy, network)))
    }
}

impl Entry {
    /// True when no quota keeps it out.
    pub(crate) fn is_in_force(&self) -> bool {
        self.excesses.is_empty()
    }
}

/// Which of two policies goes before the other: the one of higher priority, then the one of
/// smaller namespace and name, so that the outcome never depends on timing.
pub(crate) fn precedence(a: &Policy, b: &Policy) -> std::cmp::Ordering {
    let by_priority = b.priority.cmp(&a.priority);
    by_priority.then_with(|| a.name.cmp(&b.name))
}

/// The pods that a selector of a policy chooses, as a set on a network. Two ways of writing the
/// same are one set.
pub(crate) fn peer_set(
    policy: &Policy,
    network: &NetworkKey,
    peers: &netqos_core::PeerSelector,
) -> PeerSet {
    PeerSet {
        network: network.clone(),
        namespaces: match &peers.namespaces {
            Some(selector) => Scope::Matching(selector.clone()),
            None => Scope::Namespace(policy.name.namespace.clone()),
        },
        pods: peers.pods.clone().unwrap_or_default(),
    }
}

impl Rules {
    fn of(policy: &Policy, network: &NetworkKey) -> Self {
        let mut sets = BTreeMap::new();
        let numbered = (0..).zip(&policy.rules);
        let mut rules: Vec<ChainRule> = numbered
            .map(|(index, rule)| ChainRule {
                id: RuleId {
                    policy: policy.name.clone(),
                    index,
                },
                priority: policy.priority,
                to: destinations(policy, network, &rule.to, &mut sets),
                ports: rule.ports.iter().copied().collect(),
                dscp: rule.dscp,
                bandwidth: rule.bandwidth,
                mode: rule.mode,
            })
            .collect();
        rules.reverse();
        Self { rules, sets }
    }
}

fn destinations(
    policy: &Policy,
    network: &NetworkKey,
    to: &[Destination],
    sets: &mut BTreeMap<SetId, Arc<PeerSet>>,
) -> Peers {
    if to.is_empty() || to.contains(&Destination::Anywhere) {
        return Peers::Anywhere;
    }
    let mut blocks = BTreeSet::new();
    let mut named = BTreeSet::new();
    for destination in to {
        match destination {
            Destination::Block(block) => {
                blocks.insert(block.clone());
            }
            Destination::Pods(peers) => {
                let set = peer_set(policy, network, peers);
                let id = set.id();
                named.insert(id);
                sets.insert(id, Arc::new(set));
            }
            Destination::Anywhere => {}
        }
    }
    Peers::AnyOf {
        blocks,
        sets: named,
    }
}
