//! The classes of a line: what the tree of a plan becomes.
//!
//! ```text
//!   1:1 the line ─┬─ 1:12 system ──┬─ 1:2   what has no part of its own (the default)
//!                 │                └─ 1:100 a pod
//!                 ├─ 1:13 ls ──────┬─ 1:3
//!                 │                └─ …
//!                 └─ 1:14 be ──────┬─ 1:4
//!                                  └─ …
//! ```
//!
//! The proposal has `1:2`, `1:3` and `1:4` right below `1:1`, which leaves no room for pods: HTB keeps
//! guarantees that are more than the line, and a class that has others below it has no queue. So each
//! class has one more above it, from the beginning, since HTB moves no class: what has no part of its
//! own keeps its name, and has what the pods' parts leave of the class's guarantee.

use std::collections::BTreeMap;

use netqos_core::BitRate;
use netqos_core::classes::{PartId, Share, TrafficClass, Tree};
use netqos_netlink::Handle;
use netqos_netlink::class::{HtbClass, InstalledClass};

use super::names;
use crate::rate::{self, FLOOR};

/// How much of a class's queue goes before another's of the same rank does, in bytes. It is the same for
/// all, since HTB does not change it of a class with others below it.
const QUANTUM: u32 = 10 * 1514;
/// How long a packet waits in a full queue at the ceiling, and the least that a queue holds: some GSO
/// packets.
const QUEUE_NANOS: u64 = 50_000_000;
const LEAST_QUEUE: u64 = 192 << 10;

/// A class as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) handle: Handle,
    pub(super) parent: Handle,
    pub(super) class: HtbClass,
    /// Of a class with a queue, how many bytes that holds.
    pub(super) queue: Option<u32>,
}

/// The classes of a tree, those above before those below.
pub(super) fn classes(tree: &Tree, numbers: &BTreeMap<PartId, u16>) -> Vec<Wanted> {
    let line = Share {
        min: tree.shares.total,
        max: tree.shares.total,
    };
    let mut wanted = vec![inner(names::LINE, Handle::ROOT, line)];
    for class in TrafficClass::ALL {
        let share = tree.shares.of(class);
        let whole = names::whole(class);
        wanted.push(inner(whole, names::LINE, share));
        let parts = tree.parts.iter().filter(|(_, part)| part.class == class);
        let mut left = share.min.bits_per_second();
        for (id, part) in parts {
            let Some(number) = numbers.get(id) else {
                continue;
            };
            left = left.saturating_sub(part.share.min.bits_per_second());
            wanted.push(leaf(names::minor(*number), whole, part.share, class));
        }
        let rest = Share {
            min: BitRate::from_bits_per_second(left),
            max: share.max,
        };
        wanted.push(leaf(names::rest(class), whole, rest, class));
    }
    wanted
}

fn inner(handle: Handle, parent: Handle, share: Share) -> Wanted {
    Wanted {
        handle,
        parent,
        class: htb(share, 0),
        queue: None,
    }
}

fn leaf(handle: Handle, parent: Handle, share: Share, class: TrafficClass) -> Wanted {
    let class = htb(share, class.priority());
    Wanted {
        handle,
        parent,
        class,
        queue: Some(rate::passing(
            rate::reckoned(class.ceil),
            QUEUE_NANOS,
            LEAST_QUEUE,
        )),
    }
}

fn htb(share: Share, priority: u8) -> HtbClass {
    let (min, max) = (share.min.bytes_per_second(), share.max.bytes_per_second());
    rate::class(min, max, QUANTUM, priority)
}

impl Wanted {
    /// As this, and guaranteed nothing.
    pub(super) fn without_guarantee(&self) -> HtbClass {
        let HtbClass {
            ceil,
            quantum,
            priority,
            ..
        } = self.class;
        rate::class(0, ceil, quantum, priority)
    }
}

/// What a class has, as a plan says it.
pub(super) fn share(class: &InstalledClass) -> (BitRate, BitRate) {
    let rate = |bytes: u64| match bytes {
        FLOOR => BitRate::default(),
        bytes => BitRate::from_bits_per_second(bytes.saturating_mul(8)),
    };
    (rate(class.rate()), rate(class.ceil()))
}

#[cfg(test)]
mod tests {
    use netqos_core::classes::{Part, Shares};

    use super::*;

    const fn mbit(megabits: u64) -> BitRate {
        BitRate::from_bits_per_second(megabits * 1_000_000)
    }

    fn numbers(wanted: &[Wanted]) -> Vec<(String, String, u64, u64, u8)> {
        let number = |wanted: &Wanted| {
            let megabits = |bytes: u64| bytes * 8 / 1_000_000;
            (
                wanted.handle.to_string(),
                wanted.parent.to_string(),
                megabits(wanted.class.rate),
                megabits(wanted.class.ceil),
                wanted.class.priority,
            )
        };
        wanted.iter().map(number).collect()
    }

    #[test]
    fn pods_have_their_parts_of_their_class_and_never_more_than_it() {
        let share = |min, max| Share {
            min: mbit(min),
            max: mbit(max),
        };
        let shares = Shares::try_new(mbit(1000), share(300, 800), share(300, 1000)).unwrap();
        let id = |pod: &str| PartId {
            pod: pod.into(),
            flow: None,
        };
        let part = Part {
            class: TrafficClass::LatencySensitive,
            share: share(100, 200),
            is_inside_pod: false,
            asked: None,
        };
        let tree = Tree {
            shares,
            parts: BTreeMap::from([(id("a"), part), (id("b"), part)]),
        };
        let wanted = classes(&tree, &BTreeMap::from([(id("a"), 0x100), (id("b"), 0x10a)]));
        let row = |handle: &str, parent: &str, min, max, priority| {
            (handle.to_owned(), parent.to_owned(), min, max, priority)
        };
        let expected = [
            row("1:1", "root", 1000, 1000, 0),
            row("1:12", "1:1", 400, 1000, 0),
            row("1:2", "1:12", 400, 1000, 0),
            row("1:13", "1:1", 300, 800, 0),
            row("1:100", "1:13", 100, 200, 1),
            row("1:10a", "1:13", 100, 200, 1),
            row("1:3", "1:13", 100, 800, 1),
            row("1:14", "1:1", 300, 1000, 0),
            row("1:4", "1:14", 300, 1000, 2),
        ];
        assert_eq!(numbers(&wanted), expected);
        for wanted in &wanted {
            let below = wanted_below(&classes(&tree, &BTreeMap::new()), wanted.handle);
            assert!(below <= wanted.class.rate, "{wanted:?}");
        }
    }

    fn wanted_below(wanted: &[Wanted], parent: Handle) -> u64 {
        let below = wanted.iter().filter(|wanted| wanted.parent == parent);
        below.map(|wanted| wanted.class.rate).sum()
    }

    #[test]
    fn whatever_is_asked_for_is_a_class() {
        for (min, max) in [(0, 0), (0, u64::MAX), (u64::MAX, u64::MAX), (8, 16)] {
            let rate = BitRate::from_bits_per_second;
            let share = Share {
                min: rate(min),
                max: rate(max),
            };
            let class = htb(share, 2);
            assert!(FLOOR <= class.rate && class.rate <= class.ceil, "{class:?}");
            assert!(
                class.burst >= 1514 && class.ceil_burst >= class.burst,
                "{class:?}"
            );
        }
    }
}
