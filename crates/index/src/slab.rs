//! Things under small numbers.

/// Things under numbers that fit into four bytes. The number of a thing that was removed is not
/// given to another before [`Slab::settle`], so that whoever still holds it finds nothing.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    entries: Vec<Option<T>>,
    free: Vec<u32>,
    resting: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            free: Vec::new(),
            resting: Vec::new(),
        }
    }
}

impl<T> Slab<T> {
    /// Puts a thing in, and says under which number.
    pub(crate) fn insert(&mut self, entry: T) -> u32 {
        if let Some(key) = self.free.pop() {
            self.entries[key as usize] = Some(entry);
            return key;
        }
        self.entries.push(Some(entry));
        // Four billion pods do not fit into any machine's memory.
        u32::try_from(self.entries.len() - 1).unwrap_or(u32::MAX)
    }

    pub(crate) fn get(&self, key: u32) -> Option<&T> {
        self.entries.get(key as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, key: u32) -> Option<&mut T> {
        self.entries.get_mut(key as usize)?.as_mut()
    }

    pub(crate) fn remove(&mut self, key: u32) -> Option<T> {
        let removed = self.entries.get_mut(key as usize)?.take();
        if removed.is_some() {
            self.resting.push(key);
        }
        removed
    }

    /// Nobody holds a number of a removed thing any more.
    pub(crate) fn settle(&mut self) {
        self.free.append(&mut self.resting);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let numbered = (0..).zip(&self.entries);
        numbered.filter_map(|(key, entry)| Some((key, entry.as_ref()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_rests_before_it_is_used_again() {
        let mut slab = Slab::default();
        let a = slab.insert('a');
        assert_eq!(slab.remove(a), Some('a'));
        assert_ne!(slab.insert('b'), a);
        assert_eq!(slab.get(a), None);
        slab.settle();
        assert_eq!(slab.insert('c'), a);
        assert_eq!(slab.iter().count(), 2);
    }
}
