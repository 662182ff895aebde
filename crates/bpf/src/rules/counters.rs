//! What rules did, summed over the processors.

use std::collections::HashSet;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use super::{Counter, CounterKey};
use crate::{Result, sys};

/// The counters of all rules at all endpoints.
#[derive(Debug)]
pub struct Counters {
    map: OwnedFd,
    processors: usize,
}

impl Counters {
    pub(super) fn open(path: &Path) -> Result<Self> {
        Ok(Self {
            map: sys::get_table::<CounterKey, Counter>(path)?,
            processors: sys::possible_processors()?,
        })
    }

    /// All counters.
    pub fn all(&self) -> Result<Vec<(CounterKey, Counter)>> {
        let keys = self.keys()?;
        let mut found = Vec::with_capacity(keys.len());
        for key in keys {
            // SAFETY: the sizes were checked when the map was opened, and there is room for each
            // processor's value.
            let each: Option<Vec<Counter>> =
                unsafe { sys::lookup_each(self.map.as_fd(), &key, self.processors) }?;
            if let Some(each) = each {
                found.push((key, each.iter().fold(Counter::default(), sum)));
            }
        }
        Ok(found)
    }

    /// Removes those of which neither endpoint nor rule is any more.
    pub fn retain(&self, keep: impl Fn(&CounterKey) -> bool) -> Result<()> {
        for key in self.keys()? {
            if !keep(&key) {
                // SAFETY: the key's size was checked when the map was opened.
                unsafe { sys::delete(self.map.as_fd(), &key) }?;
            }
        }
        Ok(())
    }

    fn keys(&self) -> Result<HashSet<CounterKey>> {
        // SAFETY: the key's size was checked when the map was opened.
        let keys = unsafe { sys::keys(self.map.as_fd()) }?;
        Ok(keys.into_iter().collect())
    }
}

fn sum(a: Counter, b: &Counter) -> Counter {
    Counter {
        packets: a.packets + b.packets,
        bytes: a.bytes + b.bytes,
        marked: a.marked + b.marked,
        dropped_packets: a.dropped_packets + b.dropped_packets,
        dropped_bytes: a.dropped_bytes + b.dropped_bytes,
    }
}
