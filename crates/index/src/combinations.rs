//! The combinations of peer sets that pods, or slices of sets, belong to.
//!
//! Pods of the same labels belong to the same sets: what a set that comes or goes makes of their
//! combination is found out once for all of them, and so are the classes of their addresses.

use std::sync::Arc;

use netqos_core::NetworkKey;
use netqos_core::plan::SetId;

use crate::classes::Class;
use crate::hash::HashMap;
use crate::sets::Sets;
use crate::slab::Slab;

/// A combination as long as a pod belongs to it. No key: of no sets.
pub(crate) type CombinationKey = u32;

/// The combinations of one set and more.
#[derive(Debug, Default)]
pub(crate) struct Combinations {
    entries: Slab<Entry>,
    by_sets: HashMap<Arc<[SetId]>, CombinationKey>,
}

#[derive(Debug)]
struct Entry {
    sets: Arc<[SetId]>,
    pods: usize,
    /// What an address belongs to by a pod of this combination, for the networks that were asked
    /// for: sets of the same name are on the same network, always.
    classes: Vec<(NetworkKey, Option<Class>)>,
}

/// Moves pods into a set or out of it.
#[derive(Debug)]
pub(crate) struct Step {
    set: SetId,
    into: bool,
    /// Pods' combinations before and after.
    taken: HashMap<Option<CombinationKey>, Option<CombinationKey>>,
}

impl Combinations {
    /// One more pod belongs to these sets, which are sorted.
    pub(crate) fn acquire(&mut self, sets: &[SetId]) -> Option<CombinationKey> {
        if sets.is_empty() {
            return None;
        }
        let key = match self.by_sets.get(sets) {
            Some(key) => *key,
            None => {
                let sets: Arc<[SetId]> = sets.into();
                let key = self.entries.insert(Entry {
                    sets: sets.clone(),
                    pods: 0,
                    classes: Vec::new(),
                });
                self.by_sets.insert(sets, key);
                key
            }
        };
        if let Some(entry) = self.entries.get_mut(key) {
            entry.pods += 1;
        }
        Some(key)
    }

    /// One pod less belongs to a combination.
    pub(crate) fn release(&mut self, key: Option<CombinationKey>) {
        let Some(entry) = key.and_then(|key| self.entries.get_mut(key)) else {
            return;
        };
        entry.pods -= 1;
        if entry.pods == 0
            && let Some(gone) = key.and_then(|key| self.entries.remove(key))
        {
            self.by_sets.remove(&gone.sets);
        }
    }

    /// A pod of this combination takes a step. Gives back its combination afterwards.
    pub(crate) fn take(
        &mut self,
        step: &mut Step,
        from: Option<CombinationKey>,
    ) -> Option<CombinationKey> {
        let to = match step.taken.get(&from) {
            Some(to) => {
                if let Some(entry) = to.and_then(|to| self.entries.get_mut(to)) {
                    entry.pods += 1;
                }
                *to
            }
            None => {
                let mut sets = self.sets(from).to_vec();
                match (sets.binary_search(&step.set), step.into) {
                    (Ok(at), false) => {
                        sets.remove(at);
                    }
                    (Err(at), true) => sets.insert(at, step.set),
                    _ => {}
                }
                let to = self.acquire(&sets);
                step.taken.insert(from, to);
                to
            }
        };
        self.release(from);
        to
    }

    /// The class of an address on a network by a pod of this combination.
    pub(crate) fn class(
        &mut self,
        key: Option<CombinationKey>,
        network: &NetworkKey,
        sets: &Sets,
    ) -> Option<&Class> {
        let entry = self.entries.get_mut(key?)?;
        let known = entry.classes.iter().position(|(on, _)| on == network);
        let at = known.unwrap_or_else(|| {
            let of_network = entry.sets.iter().copied();
            let of_network = of_network.filter(|id| sets.is_on(*id, network));
            let class = Class::of(of_network.collect::<Arc<[SetId]>>());
            entry.classes.push((network.clone(), class));
            entry.classes.len() - 1
        });
        entry.classes.get(at)?.1.as_ref()
    }

    /// The sets of a combination, sorted.
    pub(crate) fn sets(&self, key: Option<CombinationKey>) -> &[SetId] {
        let entry = key.and_then(|key| self.entries.get(key));
        entry.map_or(&[], |entry| &entry.sets)
    }

    /// Keys of combinations without pods may be given to others from now on.
    pub(crate) fn settle(&mut self) {
        self.entries.settle();
    }
}

impl Step {
    /// Into this set.
    pub(crate) fn into(set: SetId) -> Self {
        Self {
            set,
            into: true,
            taken: HashMap::default(),
        }
    }

    /// Out of this set.
    pub(crate) fn out_of(set: SetId) -> Self {
        Self {
            into: false,
            ..Self::into(set)
        }
    }
}

#[cfg(test)]
mod tests {
    use netqos_core::Digest;

    use super::*;

    #[test]
    fn pods_that_step_alike_are_in_one_combination_and_empty_ones_are_forgotten() {
        let [a, b] = ["a", "b"].map(|name| SetId(Digest::of(&name)));
        let mut sorted = [a, b];
        sorted.sort();
        let mut combinations = Combinations::default();
        let before = [&[][..], &[], &[a], &[a]].map(|sets| combinations.acquire(sets));

        let mut step = Step::into(b);
        let within = before.map(|from| combinations.take(&mut step, from));
        assert_eq!((within[0], within[2]), (within[1], within[3]));
        assert_eq!(combinations.sets(within[0]), [b]);
        assert_eq!(combinations.sets(within[2]), sorted);
        assert_eq!(combinations.by_sets.len(), 2, "nobody is in a alone");

        let mut step = Step::out_of(b);
        let after = within.map(|from| combinations.take(&mut step, from));
        assert_eq!(after.map(|key| combinations.sets(key).len()), [0, 0, 1, 1]);
        after.into_iter().for_each(|key| combinations.release(key));
        assert!(combinations.by_sets.is_empty());
        assert_eq!(combinations.entries.iter().count(), 0);
    }
}
