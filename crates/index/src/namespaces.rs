//! The labels of namespaces, and the namespaces of labels.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use netqos_core::{LabelSelector, Labels, Operator, Requirement};

use crate::hash::HashMap;

/// The label that Kubernetes gives to each namespace: its name.
pub(crate) const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// Names of namespaces, by the value of a label.
type ByValue = HashMap<Arc<str>, BTreeSet<Arc<str>>>;

/// What is known of namespaces.
#[derive(Debug, Default)]
pub(crate) struct Namespaces {
    known: HashMap<Arc<str>, Labels>,
    by_label: HashMap<Arc<str>, ByValue>,
}

impl Namespaces {
    /// A namespace has these labels now. True when it had others.
    pub(crate) fn put(&mut self, name: Arc<str>, mut labels: Labels) -> bool {
        labels
            .entry(NAME_LABEL.into())
            .or_insert_with(|| name.clone());
        let changed = *self.labels(&name) != labels;
        self.unfile(&name);
        for (key, value) in &labels {
            let by_value = self.by_label.entry(key.clone()).or_default();
            let names = by_value.entry(value.clone()).or_default();
            names.insert(name.clone());
        }
        self.known.insert(name, labels);
        changed
    }

    /// Nothing is known of a namespace any more. True when it had labels of its own.
    pub(crate) fn remove(&mut self, name: &Arc<str>) -> bool {
        self.unfile(name);
        let removed = self.known.remove(name);
        removed.is_some_and(|labels| labels != implied(name))
    }

    /// The labels of a namespace; one that nobody has spoken of has its name.
    pub(crate) fn labels(&self, name: &Arc<str>) -> Cow<'_, Labels> {
        match self.known.get(name) {
            Some(labels) => Cow::Borrowed(labels),
            None => Cow::Owned(implied(name)),
        }
    }

    /// All namespaces that a selector chooses, found by one of its requirements. `None`: none of
    /// them asks for a label that few namespaces have, and all would have to be looked at.
    pub(crate) fn chosen(&self, selector: &LabelSelector) -> Option<Vec<Arc<str>>> {
        let candidates = selector.requirements().iter();
        let candidates = candidates.filter_map(|requirement| self.having(requirement));
        let mut chosen = candidates.min_by_key(Vec::len)?;
        chosen.retain(|name| selector.matches(&self.labels(name)));
        Some(chosen)
    }

    /// The namespaces that may have one of these values, each once. One that nobody has spoken of
    /// has only its name.
    fn having(&self, requirement: &Requirement) -> Option<Vec<Arc<str>>> {
        let Operator::In(values) = &requirement.operator else {
            return None;
        };
        let by_value = self.by_label.get(&requirement.key);
        let names = values.iter().filter_map(|value| by_value?.get(value));
        let mut having: Vec<Arc<str>> = names.flatten().cloned().collect();
        if *requirement.key == *NAME_LABEL {
            let unknown = values.iter().filter(|name| !self.known.contains_key(*name));
            having.extend(unknown.cloned());
        }
        Some(having)
    }

    fn unfile(&mut self, name: &Arc<str>) {
        for (key, value) in self.known.get(name).into_iter().flatten() {
            let Some(by_value) = self.by_label.get_mut(key) else {
                continue;
            };
            if let Some(names) = by_value.get_mut(value) {
                names.remove(name);
                if names.is_empty() {
                    by_value.remove(value);
                }
            }
            if by_value.is_empty() {
                self.by_label.remove(key);
            }
        }
    }
}

fn implied(name: &Arc<str>) -> Labels {
    Labels::from([(NAME_LABEL.into(), name.clone())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_chooses_the_namespaces_of_its_labels_and_the_names_of_unknown_ones() {
        let mut namespaces = Namespaces::default();
        let tier = |tier: &str| Labels::from([("tier".into(), tier.into())]);
        namespaces.put("a".into(), tier("shared"));
        namespaces.put("b".into(), tier("own"));
        let chosen = |namespaces: &Namespaces, key: &str, value: &str| {
            let selector = LabelSelector::new([Requirement::equals(key, value)]);
            namespaces.chosen(&selector).unwrap()
        };
        assert_eq!(chosen(&namespaces, "tier", "shared"), ["a".into()]);
        assert_eq!(chosen(&namespaces, NAME_LABEL, "b"), ["b".into()]);
        assert_eq!(chosen(&namespaces, NAME_LABEL, "c"), ["c".into()]);
        assert_eq!(namespaces.chosen(&LabelSelector::everything()), None);

        assert!(namespaces.put("a".into(), tier("own")));
        assert_eq!(chosen(&namespaces, "tier", "shared"), []);
        assert!(namespaces.remove(&"a".into()) && namespaces.remove(&"b".into()));
        assert!(namespaces.by_label.is_empty());
        assert_eq!(chosen(&namespaces, NAME_LABEL, "b"), ["b".into()]);
    }
}
