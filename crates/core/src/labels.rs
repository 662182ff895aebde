//! Labels, and the selectors that choose by them, by the rules of Kubernetes
//! (apimachinery `pkg/labels`, `metav1.LabelSelector`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde::Serialize;

/// The labels of an object.
pub type Labels = BTreeMap<Arc<str>, Arc<str>>;

/// Chooses objects by their labels: all requirements must hold. Without any it chooses everything,
/// as an empty selector does in Kubernetes; a selector that is *absent* is an `Option` around this.
///
/// Requirements are kept sorted and without repetition, so two selectors that were written in
/// another order are equal.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
}

/// What one label must be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Requirement {
    /// The label's key.
    pub key: Arc<str>,
    /// What must hold for its value.
    #[serde(flatten)]
    pub operator: Operator,
}

/// What must hold for the value of a label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(tag = "operator", content = "values")]
pub enum Operator {
    /// The label is there and has one of these values, of which there is at least one.
    In(BTreeSet<Arc<str>>),
    /// The label is absent, or has none of these values, of which there is at least one.
    NotIn(BTreeSet<Arc<str>>),
    /// The label is there.
    Exists,
    /// The label is absent.
    DoesNotExist,
}

impl LabelSelector {
    /// The selector with these requirements.
    pub fn new(requirements: impl IntoIterator<Item = Requirement>) -> Self {
        let sorted: BTreeSet<Requirement> = requirements.into_iter().collect();
        Self {
            requirements: sorted.into_iter().collect(),
        }
    }

    /// The selector that chooses everything.
    pub const fn everything() -> Self {
        Self {
            requirements: Vec::new(),
        }
    }

    /// Its requirements, sorted.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// True when it chooses an object with these labels.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.requirements
            .iter()
            .all(|requirement| requirement.matches(labels))
    }
}

impl Requirement {
    /// `key` has this value: what `matchLabels` says.
    pub fn equals(key: &str, value: &str) -> Self {
        Self {
            key: key.into(),
            operator: Operator::In(BTreeSet::from([value.into()])),
        }
    }

    /// True when it holds for these labels.
    pub fn matches(&self, labels: &Labels) -> bool {
        let value = labels.get(&self.key);
        match &self.operator {
            Operator::In(values) => value.is_some_and(|value| values.contains(value)),
            Operator::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
        }
    }
}

impl fmt::Display for LabelSelector {
    /// As `kubectl -l` reads it: `app=web,tier in (a,b),!legacy`; `everything` when it is empty.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.requirements.is_empty() {
            return f.write_str("everything");
        }
        for (index, requirement) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |values: &BTreeSet<Arc<str>>| {
            let values: Vec<&str> = values.iter().map(AsRef::as_ref).collect();
            values.join(",")
        };
        let key = &self.key;
        match &self.operator {
            Operator::In(values) if values.len() == 1 => write!(f, "{key}={}", list(values)),
            Operator::In(values) => write!(f, "{key} in ({})", list(values)),
            Operator::NotIn(values) if values.len() == 1 => write!(f, "{key}!={}", list(values)),
            Operator::NotIn(values) => write!(f, "{key} notin ({})", list(values)),
            Operator::Exists => f.write_str(key),
            Operator::DoesNotExist => write!(f, "!{key}"),
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

    fn requirement(key: &str, operator: Operator) -> LabelSelector {
        LabelSelector::new([Requirement {
            key: key.into(),
            operator,
        }])
    }

    #[test]
    fn operators_are_those_of_kubernetes() {
        let one_of = |values: &[&str]| values.iter().map(|value| (*value).into()).collect();
        let there = labels(&[("tier", "front"), ("app", "web")]);
        for (selector, matches_there, matches_none, text) in [
            (LabelSelector::everything(), true, true, "everything"),
            (
                requirement("tier", Operator::In(one_of(&["front", "back"]))),
                true,
                false,
                "tier in (back,front)",
            ),
            (
                requirement("tier", Operator::NotIn(one_of(&["front"]))),
                false,
                true,
                "tier!=front",
            ),
            (requirement("tier", Operator::Exists), true, false, "tier"),
            (
                requirement("tier", Operator::DoesNotExist),
                false,
                true,
                "!tier",
            ),
        ] {
            assert_eq!(selector.matches(&there), matches_there, "{selector}");
            assert_eq!(selector.matches(&Labels::new()), matches_none, "{selector}");
            assert_eq!(selector.to_string(), text);
        }
    }

    #[test]
    fn the_order_in_which_it_was_written_does_not_matter() {
        let [a, b] = [Requirement::equals("a", "1"), Requirement::equals("b", "2")];
        let one = LabelSelector::new([a.clone(), b.clone(), a.clone()]);
        assert_eq!(one, LabelSelector::new([b, a]));
        assert!(!one.matches(&labels(&[("a", "1")])));
    }
}
