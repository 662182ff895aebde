//! The pods that a set has, looked for where the fewest are.

use std::collections::BTreeSet;
use std::sync::Arc;

use netqos_core::plan::{PeerSet, Scope};
use netqos_core::{LabelSelector, Operator};

use crate::namespaces::Namespaces;
use crate::pods::{PodKey, Pods};

/// Pods in groups without an overlap.
type Groups<'p> = Vec<&'p BTreeSet<PodKey>>;

impl Pods {
    /// The pods that a set has, whatever their networks.
    pub(crate) fn of(&self, set: &PeerSet, namespaces: &Namespaces) -> Vec<PodKey> {
        let labelled = self.labelled(&set.pods);
        let few = labelled.as_ref().map(|groups| count(groups));
        match self.spaces(&set.namespaces, namespaces, few) {
            Some(spaces) if few.is_none_or(|few| count(&spaces) <= few) => {
                let keys = spaces.into_iter().flatten().copied();
                keys.filter(|key| self.is_labelled(*key, &set.pods))
                    .collect()
            }
            _ => self.in_scope(labelled.unwrap_or_default(), set, namespaces),
        }
    }

    /// The pods of all namespaces of a scope. `None`: to look at so many namespaces is not worth
    /// it, because only a few pods have the right labels.
    fn spaces(
        &self,
        scope: &Scope,
        namespaces: &Namespaces,
        few: Option<usize>,
    ) -> Option<Groups<'_>> {
        let selector = match scope {
            Scope::Namespace(name) => {
                return Some(self.by_namespace.get(name).into_iter().collect());
            }
            Scope::Matching(selector) => selector,
        };
        if let Some(chosen) = namespaces.chosen(selector) {
            let groups = chosen.iter().filter_map(|name| self.by_namespace.get(name));
            return Some(groups.collect());
        }
        if few.is_some_and(|few| few < self.by_namespace.len()) {
            return None;
        }
        let all = self.by_namespace.iter();
        let chosen = all.filter(|(name, _)| selector.matches(&namespaces.labels(name)));
        Some(chosen.map(|(_, keys)| keys).collect())
    }

    /// Those of labelled pods that a set has. What was found out of a namespace counts for the
    /// next pod, too, if that is in the same.
    fn in_scope(&self, from: Groups<'_>, set: &PeerSet, namespaces: &Namespaces) -> Vec<PodKey> {
        let mut last: Option<(Arc<str>, bool)> = None;
        let mut is_in_scope = |name: &Arc<str>| match (&set.namespaces, &last) {
            (Scope::Namespace(only), _) => name == only,
            (_, Some((last, chosen))) if Arc::ptr_eq(last, name) => *chosen,
            (Scope::Matching(selector), _) => {
                let chosen = selector.matches(&namespaces.labels(name));
                last = Some((name.clone(), chosen));
                chosen
            }
        };
        // The one requirement is what they were found by.
        let is_enough = set.pods.requirements().len() == 1;
        let keys = from.into_iter().flatten().copied();
        keys.filter(|key| {
            let entry = self.get(*key);
            entry.is_some_and(|entry| is_in_scope(&entry.pod.id.name.namespace))
                && (is_enough || self.is_labelled(*key, &set.pods))
        })
        .collect()
    }

    fn is_labelled(&self, key: PodKey, selector: &LabelSelector) -> bool {
        self.get(key)
            .is_some_and(|entry| selector.matches(&entry.pod.labels))
    }

    /// The pods that fulfil one requirement of a selector, the one that the fewest fulfil. `None`
    /// when no requirement asks for a label.
    fn labelled(&self, selector: &LabelSelector) -> Option<Groups<'_>> {
        let groups = selector.requirements().iter().filter_map(|requirement| {
            let by_value = self.by_label.get(&requirement.key);
            match &requirement.operator {
                Operator::In(values) => {
                    let keys = |value| by_value.and_then(|by_value| by_value.get(value));
                    Some(values.iter().filter_map(keys).collect::<Vec<_>>())
                }
                Operator::Exists => {
                    Some(by_value.map_or_else(Vec::new, |values| values.values().collect()))
                }
                Operator::NotIn(_) | Operator::DoesNotExist => None,
            }
        });
        groups.min_by_key(|groups| count(groups))
    }
}

fn count(groups: &[&BTreeSet<PodKey>]) -> usize {
    groups.iter().map(|group| group.len()).sum()
}

#[cfg(test)]
mod tests {
    use netqos_core::objects::Pod;
    use netqos_core::{Labels, NetworkKey, Requirement};
    use proptest::collection::{btree_map, btree_set, vec};
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;
    use crate::namespaces::NAME_LABEL;
    use crate::sets;

    fn word(of: &'static [&'static str]) -> impl Strategy<Value = Arc<str>> {
        select(of).prop_map(Arc::from)
    }

    /// Values are names of namespaces, too: a namespace may be labelled with another one's.
    fn labels() -> impl Strategy<Value = Labels> {
        btree_map(
            word(&["app", "tier", NAME_LABEL]),
            word(&["a", "b", "x"]),
            0..3,
        )
    }

    fn label_selector() -> impl Strategy<Value = LabelSelector> {
        let values = || btree_set(word(&["a", "b", "c", "x"]), 1..3);
        let operator = prop_oneof![
            4 => values().prop_map(Operator::In),
            1 => values().prop_map(Operator::NotIn),
            1 => Just(Operator::Exists),
            1 => Just(Operator::DoesNotExist),
        ];
        let requirement = (word(&["app", "tier", NAME_LABEL]), operator);
        let requirement = requirement.prop_map(|(key, operator)| Requirement { key, operator });
        vec(requirement, 0..3).prop_map(LabelSelector::new)
    }

    fn set() -> impl Strategy<Value = PeerSet> {
        let namespaces = prop_oneof![
            1 => word(&["a", "b", "c"]).prop_map(Scope::Namespace),
            3 => label_selector().prop_map(Scope::Matching),
        ];
        (namespaces, label_selector()).prop_map(|(namespaces, pods)| PeerSet {
            network: NetworkKey::Default,
            namespaces,
            pods,
        })
    }

    fn pod(namespace: &Arc<str>, number: usize, labels: Labels) -> Pod {
        Pod {
            labels,
            ..netqos_testkit::index::objects::pod(&format!("{namespace}/{number}"), &[], &[])
        }
    }

    proptest! {
        #[test]
        fn the_pods_that_are_found_are_those_that_a_walk_through_all_finds(
            known in vec((word(&["a", "b", "c"]), labels(), any::<bool>()), 0..6),
            there in vec((word(&["a", "b", "c", "d"]), labels()), 0..30),
            sets in vec(set(), 1..6),
        ) {
            let (mut namespaces, mut pods) = (Namespaces::default(), Pods::default());
            for (name, labels, stays) in known {
                namespaces.put(name.clone(), labels);
                if !stays {
                    namespaces.remove(&name);
                }
            }
            for (number, (namespace, labels)) in there.into_iter().enumerate() {
                pods.insert(pod(&namespace, number, labels));
            }
            for set in sets {
                let mut found = pods.of(&set, &namespaces);
                found.sort_unstable();
                let walk = pods.iter().filter(|(_, entry)| {
                    let namespace = namespaces.labels(&entry.pod.id.name.namespace);
                    sets::has(&set, &entry.pod, &namespace)
                });
                let right: Vec<PodKey> = walk.map(|(key, _)| key).collect();
                prop_assert_eq!(found, right);
            }
        }
    }
}
