//! A table that has room for every number from the beginning.

use std::path::Path;

use crate::Result;
use crate::rules::{Entries, Plain, Table};

/// Values by number. What is nothing but zeros is not there.
#[derive(Debug)]
pub struct Numbered<V>(Table<u32, V>);

impl<V: Plain + PartialEq> Numbered<V> {
    /// The map that is pinned at this path.
    ///
    /// # Errors
    /// [`Error::Foreign`](crate::Error::Foreign) when its values are not of this size.
    pub(super) fn open(path: &Path) -> Result<Self> {
        Table::open(path).map(Self)
    }
}

impl<V: Plain + PartialEq> Entries<u32, V> for Numbered<V> {
    fn get(&self, number: &u32) -> Result<Option<V>> {
        let found = self.0.get(number)?;
        Ok(found.filter(|value| *value != V::default()))
    }

    fn put(&self, number: &u32, value: &V) -> Result<()> {
        self.0.put(number, value)
    }

    fn remove(&self, number: &u32) -> Result<bool> {
        let is_there = self.get(number)?.is_some();
        if is_there {
            self.0.put(number, &V::default())?;
        }
        Ok(is_there)
    }

    fn keys(&self) -> Result<Vec<u32>> {
        let all = self.0.whole()?.into_iter();
        let there = all.filter(|(_, value)| *value != V::default());
        Ok(there.map(|(number, _)| number).collect())
    }
}
