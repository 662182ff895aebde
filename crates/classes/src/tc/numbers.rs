//! Which class number a part has, the same on all lines.
//!
//! Nothing is kept but in the kernel: a part that has its number in the sets or in its cgroup goes on
//! with it, whoever gave it.

use std::collections::{BTreeMap, BTreeSet};

use netqos_core::classes::PartId;
use netqos_netlink::Handle;

use super::names::FIRST_PART;

/// A part to be numbered.
#[derive(Clone, Debug)]
pub(super) struct Unnumbered {
    pub(super) id: PartId,
    /// The class above it.
    pub(super) parent: Handle,
    /// The number that its addresses or its cgroup have.
    pub(super) had: Option<u16>,
}

/// Gives each part a number. HTB moves no class, so that a number under another class is of no use, and
/// one that anybody has is not given to another. `None` has who comes when all are taken.
pub(super) fn give(
    parts: Vec<Unnumbered>,
    mut taken: BTreeSet<u16>,
    parents: &BTreeMap<u16, BTreeSet<Handle>>,
) -> BTreeMap<PartId, u16> {
    let fits = |part: &Unnumbered, number: &u16| {
        let above = parents.get(number);
        *number >= FIRST_PART
            && above.is_none_or(|above| above.iter().all(|above| *above == part.parent))
    };
    let mut given = BTreeMap::new();
    let mut kept = BTreeSet::new();
    let mut others = Vec::new();
    for part in parts {
        let had = part.had.filter(|number| fits(&part, number));
        match had.filter(|number| kept.insert(*number)) {
            Some(number) => {
                given.insert(part.id, number);
            }
            None => others.push(part),
        }
    }
    taken.extend(kept);
    taken.extend(parents.keys());
    let mut free = (FIRST_PART..=u16::MAX).filter(|number| !taken.contains(number));
    for part in others {
        given.extend(free.next().map(|number| (part.id, number)));
    }
    given
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tc::names;

    fn id(pod: &str) -> PartId {
        PartId {
            pod: pod.into(),
            flow: None,
        }
    }

    #[test]
    fn who_has_a_number_keeps_it_and_nobody_gets_one_twice() {
        let (ls, be) = (names::minor(0x13), names::minor(0x14));
        let part = |pod, parent, had| Unnumbered {
            id: id(pod),
            parent,
            had,
        };
        let parts = vec![
            part("a", ls, None),
            part("b", ls, Some(0x102)),
            // It was of another class.
            part("c", be, Some(0x103)),
            // Another one's.
            part("d", ls, Some(0x102)),
            // None of ours.
            part("e", ls, Some(3)),
            part("f", be, Some(0x105)),
        ];
        let taken = BTreeSet::from([0x100, 0x102]);
        let parents = [(0x102, ls), (0x103, ls), (0x104, be)];
        let parents = parents.map(|(number, parent)| (number, BTreeSet::from([parent])));
        let given = give(parts, taken, &BTreeMap::from(parents));
        let expected = [
            ("a", 0x101),
            ("b", 0x102),
            ("c", 0x106),
            ("d", 0x107),
            ("e", 0x108),
            ("f", 0x105),
        ];
        assert_eq!(
            given,
            expected.map(|(pod, number)| (id(pod), number)).into()
        );
    }
}
