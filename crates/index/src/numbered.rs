//! Numbers for things that many others have in common.

use std::hash::Hash;

use crate::hash::HashMap;
use crate::slab::Slab;

/// A number for each thing, as long as anybody holds it.
#[derive(Debug)]
pub(crate) struct Numbered<T> {
    by_thing: HashMap<T, u32>,
    /// Each with how many hold its number.
    things: Slab<(T, usize)>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self {
            by_thing: HashMap::default(),
            things: Slab::default(),
        }
    }
}

impl<T: Clone + Eq + Hash> Numbered<T> {
    /// One more holds the number of a thing.
    pub(crate) fn acquire(&mut self, thing: &T) -> u32 {
        let number = match self.by_thing.get(thing) {
            Some(number) => *number,
            None => {
                let number = self.things.insert((thing.clone(), 0));
                self.by_thing.insert(thing.clone(), number);
                number
            }
        };
        if let Some((_, holders)) = self.things.get_mut(number) {
            *holders += 1;
        }
        number
    }

    /// One less holds a number. One that nobody holds is not given to another thing before
    /// [`Numbered::settle`].
    pub(crate) fn release(&mut self, number: u32) {
        let Some((_, holders)) = self.things.get_mut(number) else {
            return;
        };
        *holders -= 1;
        if *holders == 0
            && let Some((thing, _)) = self.things.remove(number)
        {
            self.by_thing.remove(&thing);
        }
    }

    /// The number of a thing, where anybody holds it.
    pub(crate) fn find(&self, thing: &T) -> Option<u32> {
        self.by_thing.get(thing).copied()
    }

    /// The thing of a number that somebody holds.
    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        self.things.get(number).map(|(thing, _)| thing)
    }

    /// Numbers that nobody holds may be given to others from now on.
    pub(crate) fn settle(&mut self) {
        self.things.settle();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thing_has_its_number_as_long_as_anybody_holds_it() {
        let mut things = Numbered::default();
        let a = things.acquire(&'a');
        assert_eq!(things.acquire(&'a'), a);
        assert_ne!(things.acquire(&'b'), a);
        things.release(a);
        assert_eq!((things.find(&'a'), things.get(a)), (Some(a), Some(&'a')));
        things.release(a);
        assert_eq!((things.find(&'a'), things.get(a)), (None, None));
        assert_ne!(things.acquire(&'c'), a);
        things.settle();
        assert_eq!(things.acquire(&'d'), a);
    }
}
