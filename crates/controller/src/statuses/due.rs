//! Which policies are to be looked at, and in which order.

use std::collections::HashMap;

use netqos_core::ObjectName;
use tokio::time::Instant;

/// What may be wrong with a status. The former goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// Something that somebody waits for.
    Matters,
    /// Counts alone.
    Counts,
}

/// Policies that are to be looked at. What matters goes before counts, and of each, what has waited
/// for longest.
#[derive(Debug, Default)]
pub(super) struct Queue(HashMap<ObjectName, Entry>);

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Not before.
    at: Instant,
    rank: Rank,
    /// Since when it has waited.
    since: Instant,
}

impl Queue {
    /// A policy may be other than it was, in what matters; it is not to be looked at before `at`. One that
    /// waits for its turn keeps it.
    pub(super) fn touch(&mut self, name: ObjectName, at: Instant, now: Instant) {
        let waits = self.0.get(&name).filter(|it| it.at <= now);
        let since = waits.map_or(now, |it| it.since);
        let rank = Rank::Matters;
        self.0.insert(name, Entry { at, rank, since });
    }

    /// It was looked at, and is to be again then.
    pub(super) fn postpone(&mut self, name: ObjectName, at: Instant, rank: Rank) {
        let since = at;
        self.0.insert(name, Entry { at, rank, since });
    }

    /// It was looked at, and there was no room for its counts.
    pub(super) fn wait_with_counts(&mut self, name: &ObjectName) {
        if let Some(entry) = self.0.get_mut(name) {
            entry.rank = Rank::Counts;
        }
    }

    /// There is nothing to be done about it.
    pub(super) fn remove(&mut self, name: &ObjectName) {
        self.0.remove(name);
    }

    /// Those whose time has come, in the order in which they go.
    pub(super) fn due(&self, now: Instant) -> Vec<ObjectName> {
        let due = self.0.iter().filter(|(_, entry)| entry.at <= now);
        let mut due: Vec<_> = due.collect();
        due.sort_unstable_by_key(|(name, entry)| (entry.rank, entry.since, *name));
        due.into_iter().map(|(name, _)| name.clone()).collect()
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_matters_goes_before_counts_and_the_oldest_first() {
        let begin = Instant::now();
        let at = |second: u64| begin + Duration::from_secs(second);
        let name = |name: &str| ObjectName::new("games", name);
        let mut queue = Queue::default();
        let due = |queue: &Queue, second| {
            let due = queue.due(at(second)).into_iter();
            due.map(|it| it.name.to_string()).collect::<Vec<_>>()
        };
        queue.postpone(name("counts"), at(1), Rank::Counts);
        queue.touch(name("second"), at(3), at(3));
        queue.touch(name("first"), at(2), at(2));
        queue.touch(name("later"), at(9), at(2));
        assert_eq!(due(&queue, 4), ["first", "second", "counts"]);
        // Touched again and again, nobody loses or gains a place.
        queue.touch(name("first"), at(5), at(5));
        queue.touch(name("third"), at(5), at(5));
        assert_eq!(due(&queue, 5), ["first", "second", "third", "counts"]);
        // There may be more to say of it by now.
        queue.touch(name("counts"), at(6), at(6));
        assert_eq!(due(&queue, 6), ["counts", "first", "second", "third"]);
        queue.wait_with_counts(&name("counts"));
        queue.remove(&name("first"));
        assert_eq!(due(&queue, 6), ["second", "third", "counts"]);
        // Others were there before it came to be due.
        assert_eq!(due(&queue, 9), ["later", "second", "third", "counts"]);
    }
}
