//! The labels of namespaces.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use netqos_core::Labels;

/// The label that Kubernetes gives to each namespace: its name.
pub(crate) const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// What is known of namespaces.
#[derive(Debug, Default)]
pub(crate) struct Namespaces {
    known: HashMap<Arc<str>, Labels>,
}

impl Namespaces {
    /// A namespace has these labels now. True when it had others.
    pub(crate) fn put(&mut self, name: Arc<str>, mut labels: Labels) -> bool {
        labels
            .entry(NAME_LABEL.into())
            .or_insert_with(|| name.clone());
        let changed = *self.labels(&name) != labels;
        self.known.insert(name, labels);
        changed
    }

    /// Nothing is known of a namespace any more. True when it had labels of its own.
    pub(crate) fn remove(&mut self, name: &Arc<str>) -> bool {
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
}

fn implied(name: &Arc<str>) -> Labels {
    Labels::from([(NAME_LABEL.into(), name.clone())])
}
