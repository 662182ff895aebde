//! The combinations of peer sets that addresses belong to.

use std::collections::BTreeSet;
use std::sync::Arc;

use netqos_core::plan::{ClassId, SetId};

use crate::hash::HashMap;

/// The combinations in use.
#[derive(Debug, Default)]
pub(crate) struct Classes {
    live: HashMap<ClassId, Live>,
    by_sets: HashMap<Arc<[SetId]>, ClassId>,
    touched: BTreeSet<ClassId>,
}

/// A combination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Class {
    pub(crate) id: ClassId,
    /// Sorted.
    pub(crate) sets: Arc<[SetId]>,
}

#[derive(Debug)]
struct Live {
    sets: Arc<[SetId]>,
    addresses: usize,
}

impl Class {
    /// The combination of these sets, which are sorted; none of none.
    pub(crate) fn of(sets: impl Into<Arc<[SetId]>>) -> Option<Self> {
        let sets = sets.into();
        (!sets.is_empty()).then(|| Self {
            id: ClassId::of(&sets.iter().copied().collect()),
            sets,
        })
    }
}

impl Classes {
    /// The combination of these sets, which are sorted; none of none.
    pub(crate) fn of(&self, sets: &[SetId]) -> Option<Class> {
        match self.by_sets.get_key_value(sets) {
            Some((sets, id)) => Some(Class {
                id: *id,
                sets: sets.clone(),
            }),
            None => Class::of(sets),
        }
    }

    /// One more address belongs to these sets.
    pub(crate) fn acquire(&mut self, class: &Class) {
        let live = self.live.entry(class.id).or_insert_with(|| {
            self.touched.insert(class.id);
            self.by_sets.insert(class.sets.clone(), class.id);
            Live {
                sets: class.sets.clone(),
                addresses: 0,
            }
        });
        live.addresses += 1;
    }

    /// One address less belongs to a combination, of these sets.
    pub(crate) fn release(&mut self, id: ClassId) -> Option<Arc<[SetId]>> {
        let live = self.live.get_mut(&id)?;
        live.addresses -= 1;
        if live.addresses == 0 {
            self.touched.insert(id);
        }
        Some(live.sets.clone())
    }

    /// The combinations that came, and those that went, which are forgotten.
    pub(crate) fn take_changes(&mut self) -> Vec<(ClassId, Option<BTreeSet<SetId>>)> {
        let touched = std::mem::take(&mut self.touched);
        let changes = touched.into_iter().map(|id| {
            let live = self.live.get(&id).filter(|live| live.addresses > 0);
            let sets = live.map(|live| live.sets.iter().copied().collect());
            if sets.is_none()
                && let Some(gone) = self.live.remove(&id)
            {
                self.by_sets.remove(&gone.sets);
            }
            (id, sets)
        });
        changes.collect()
    }
}
