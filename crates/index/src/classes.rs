//! The combinations of peer sets that addresses belong to.

use std::collections::{BTreeSet, HashMap};

use netqos_core::plan::{ClassId, SetId};

/// The combinations in use.
#[derive(Debug, Default)]
pub(crate) struct Classes {
    ids: HashMap<Box<[SetId]>, ClassId>,
    live: HashMap<ClassId, Live>,
    touched: BTreeSet<ClassId>,
}

#[derive(Debug)]
struct Live {
    sets: Box<[SetId]>,
    addresses: usize,
}

impl Classes {
    /// One more address belongs to these sets, which are sorted.
    pub(crate) fn acquire(&mut self, sets: &[SetId]) -> ClassId {
        let id = match self.ids.get(sets) {
            Some(id) => *id,
            None => {
                let id = ClassId::of(&sets.iter().copied().collect());
                self.ids.insert(sets.into(), id);
                id
            }
        };
        let live = self.live.entry(id).or_insert_with(|| {
            self.touched.insert(id);
            Live {
                sets: sets.into(),
                addresses: 0,
            }
        });
        live.addresses += 1;
        id
    }

    /// One address less does.
    pub(crate) fn release(&mut self, id: ClassId) {
        if let Some(live) = self.live.get_mut(&id) {
            live.addresses -= 1;
            if live.addresses == 0 {
                self.touched.insert(id);
            }
        }
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
                self.ids.remove(&gone.sets);
            }
            (id, sets)
        });
        changes.collect()
    }
}
