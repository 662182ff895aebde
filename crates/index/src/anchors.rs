//! Selectors, found by the labels that they might choose.
//!
//! Each selector hangs on one of its requirements, its anchor: labels that do not fulfil that one
//! need not be shown to the selector. Of several requirements the one is taken that the fewest
//! others hang on.

use std::collections::BTreeSet;
use std::sync::Arc;

use netqos_core::{LabelSelector, Labels, Operator, Requirement};

use crate::hash::HashMap;

/// Holders of selectors.
#[derive(Debug)]
pub(crate) struct Anchors<T> {
    values: HashMap<Arc<str>, HashMap<Arc<str>, BTreeSet<T>>>,
    keys: HashMap<Arc<str>, BTreeSet<T>>,
    /// Those that labels without any of the keys may fulfil.
    rest: BTreeSet<T>,
}

impl<T> Default for Anchors<T> {
    fn default() -> Self {
        Self {
            values: HashMap::default(),
            keys: HashMap::default(),
            rest: BTreeSet::new(),
        }
    }
}

impl<T: Copy + Ord> Anchors<T> {
    /// How many hang where this selector would; `None` when it has no requirement to hang on.
    pub(crate) fn crowd(&self, selector: &LabelSelector) -> Option<usize> {
        self.anchor(selector).map(|(crowd, _)| crowd)
    }

    /// Adds the holder of a selector.
    pub(crate) fn insert(&mut self, selector: &LabelSelector, holder: T) {
        let Some((_, anchor)) = self.anchor(selector) else {
            self.rest.insert(holder);
            return;
        };
        match &anchor.operator {
            Operator::In(values) => {
                let by_value = self.values.entry(anchor.key.clone()).or_default();
                for value in values {
                    by_value.entry(value.clone()).or_default().insert(holder);
                }
            }
            _ => {
                let holders = self.keys.entry(anchor.key.clone()).or_default();
                holders.insert(holder);
            }
        }
    }

    /// Removes the holder of a selector, wherever it hangs.
    pub(crate) fn remove(&mut self, selector: &LabelSelector, holder: T) {
        self.rest.remove(&holder);
        for requirement in selector.requirements() {
            match &requirement.operator {
                Operator::In(values) => {
                    let Some(by_value) = self.values.get_mut(&requirement.key) else {
                        continue;
                    };
                    for value in values {
                        remove_from(by_value, value, holder);
                    }
                    if by_value.is_empty() {
                        self.values.remove(&requirement.key);
                    }
                }
                Operator::Exists => remove_from(&mut self.keys, &requirement.key, holder),
                Operator::NotIn(_) | Operator::DoesNotExist => {}
            }
        }
    }

    /// The holders of all selectors that may choose these labels, each once.
    pub(crate) fn candidates(&self, labels: &Labels) -> impl Iterator<Item = T> {
        let keyed = labels.iter().flat_map(|(key, value)| {
            let by_value = self.values.get(key).and_then(|values| values.get(value));
            let by_key = self.keys.get(key);
            by_value.into_iter().chain(by_key).flatten()
        });
        self.rest.iter().chain(keyed).copied()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty() && self.keys.is_empty() && self.rest.is_empty()
    }

    fn anchor<'s>(&self, selector: &'s LabelSelector) -> Option<(usize, &'s Requirement)> {
        let crowd = |requirement: &Requirement| match &requirement.operator {
            Operator::In(values) => {
                let by_value = self.values.get(&requirement.key);
                let crowd = |value| {
                    by_value
                        .and_then(|by| by.get(value))
                        .map_or(0, BTreeSet::len)
                };
                Some(values.iter().map(crowd).sum())
            }
            // A key alone is on far more objects than a key with a value.
            Operator::Exists => self
                .keys
                .get(&requirement.key)
                .map_or(Some(16), |holders| Some(16 + holders.len())),
            Operator::NotIn(_) | Operator::DoesNotExist => None,
        };
        let requirements = selector.requirements().iter();
        requirements
            .filter_map(|requirement| Some((crowd(requirement)?, requirement)))
            .min_by_key(|(crowd, _)| *crowd)
    }
}

fn remove_from<T: Ord>(map: &mut HashMap<Arc<str>, BTreeSet<T>>, key: &Arc<str>, holder: T) {
    if let Some(holders) = map.get_mut(key) {
        holders.remove(&holder);
        if holders.is_empty() {
            map.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        let own = |(key, value): &(&str, &str)| ((*key).into(), (*value).into());
        pairs.iter().map(own).collect()
    }

    fn selector(key: &str, operator: Operator) -> LabelSelector {
        let key = key.into();
        LabelSelector::new([Requirement { key, operator }])
    }

    #[test]
    fn a_selector_is_found_by_the_labels_that_it_may_choose() {
        let one_of = |values: &[&str]| values.iter().map(|value| (*value).into()).collect();
        let selectors = [
            selector("app", Operator::In(one_of(&["web", "db"]))),
            selector("app", Operator::Exists),
            selector("app", Operator::NotIn(one_of(&["web"]))),
            selector("app", Operator::DoesNotExist),
            LabelSelector::everything(),
        ];
        let mut anchors = Anchors::default();
        for (holder, selector) in selectors.iter().enumerate() {
            anchors.insert(selector, holder);
        }
        for (labels, may) in [
            (labels(&[("app", "web")]), vec![0, 1, 2, 3, 4]),
            (labels(&[("app", "cache"), ("tier", "x")]), vec![1, 2, 3, 4]),
            (labels(&[]), vec![2, 3, 4]),
        ] {
            let mut found: Vec<usize> = anchors.candidates(&labels).collect();
            found.sort_unstable();
            assert_eq!(found, may, "{labels:?}");
        }
        for (holder, selector) in selectors.iter().enumerate() {
            anchors.remove(selector, holder);
        }
        assert!(anchors.is_empty());
    }

    #[test]
    fn the_requirement_that_fewest_hang_on_is_the_anchor() {
        let mut anchors = Anchors::default();
        for holder in 0..100 {
            let own = format!("{holder}");
            let both = [
                Requirement::equals("part-of", "shop"),
                Requirement::equals("who", &own),
            ];
            anchors.insert(&LabelSelector::new(both), holder);
        }
        let one = labels(&[("part-of", "shop"), ("who", "7")]);
        assert!(anchors.candidates(&one).count() <= 2);
    }
}
