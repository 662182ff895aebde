//! The limits that profiles give to the pods of their namespaces.

use std::cmp::Reverse;
use std::sync::Arc;

use netqos_core::{Labels, ObjectName, Profile};

use crate::hash::HashMap;

/// The profiles that there are, those of a namespace in the order in which they decide.
#[derive(Debug, Default)]
pub(crate) struct Profiles {
    by_namespace: HashMap<Arc<str>, Vec<Profile>>,
}

impl Profiles {
    /// Puts a profile in, and gives back the one that it replaces.
    pub(crate) fn put(&mut self, profile: Profile) -> Option<Profile> {
        let before = self.remove(&profile.name);
        let namespace = profile.name.namespace.clone();
        let profiles = self.by_namespace.entry(namespace).or_default();
        let at = profiles.partition_point(|other| place(other) < place(&profile));
        profiles.insert(at, profile);
        before
    }

    pub(crate) fn remove(&mut self, name: &ObjectName) -> Option<Profile> {
        let profiles = self.by_namespace.get_mut(&name.namespace)?;
        let at = profiles.iter().position(|profile| profile.name == *name)?;
        let removed = profiles.remove(at);
        if profiles.is_empty() {
            self.by_namespace.remove(&name.namespace);
        }
        Some(removed)
    }

    /// The profiles of a namespace that are for pods of these labels, in the order in which they decide.
    pub(crate) fn selecting(
        &self,
        namespace: &Arc<str>,
        pod: &Labels,
    ) -> impl Iterator<Item = &Profile> {
        let profiles = self.by_namespace.get(namespace).into_iter().flatten();
        profiles.filter(move |profile| profile.is_for(pod))
    }
}

/// Where a profile stands among those of its namespace.
fn place(profile: &Profile) -> (Reverse<netqos_core::Priority>, &Arc<str>) {
    (Reverse(profile.priority), &profile.name.name)
}
