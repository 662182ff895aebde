//! Where the programs find how flows of a slot are told apart.

use std::fs;
use std::path::Path;

use aya::maps::{HashMap, Map, MapData};
use netqos_bpf::classes::{Classes, Leaf, LeafKey, Line, Slot, Tree};
use netqos_core::Direction;
use netqos_core::classes::TrafficClass;

use crate::bpffs;

/// The tables in a BPF file system that nobody else sees; `None`, with a reason, where that cannot be
/// had.
fn classes() -> Option<(tempfile::TempDir, Classes)> {
    let folder = bpffs::private()?;
    let classes = Classes::ensure(folder.path()).unwrap();
    Some((folder, classes))
}

fn leaf(of: LeafKey) -> Leaf {
    let rate = u64::from(of.tree.ifindex() * 100_000 + of.slot);
    Leaf::new(TrafficClass::System, rate, 1, 1)
}

/// Leaves that are in the table, and not in the array.
fn far(folder: &Path) -> usize {
    let map = MapData::from_pin(folder.join("netqos/classes-v4/leaves")).unwrap();
    let leaves = HashMap::<_, [u8; 8], [u8; 48]>::try_from(Map::HashMap(map)).unwrap();
    leaves.keys().count()
}

/// Each line has two, of which these are one; together they are more than there are places.
fn tree(ifindex: u32) -> Tree {
    let direction = match ifindex % 3 {
        0 => Direction::Ingress,
        _ => Direction::Egress,
    };
    Tree::new(ifindex, direction)
}

#[test]
fn whether_they_are_of_the_first_trees_and_slots_or_not() {
    let Some((folder, classes)) = classes() else {
        return;
    };
    let leaves = &classes.leaves;
    let slots = [0, 1, 511, 512, 16_000];
    let keys = |trees: std::ops::Range<u32>| {
        trees.flat_map(move |ifindex| slots.map(|slot| LeafKey::new(tree(ifindex), Slot(slot))))
    };
    let is_there = |key: LeafKey| {
        let found = leaves.get(&key).unwrap();
        found.is_some_and(|found| found.is_same(&leaf(key)))
    };
    // More trees than there is room for in the array.
    for key in keys(1..25) {
        assert_eq!(leaves.get(&key).unwrap(), None, "{key:?}");
        leaves.put(&key, &leaf(key)).unwrap();
    }
    assert!(keys(1..25).all(is_there));
    // A tree stays where it is when others go, what they had is forgotten, and those of the last eight
    // that stay have a place now.
    assert_eq!(
        leaves.retain(|ifindex| ifindex % 2 == 0).unwrap(),
        12 * slots.len() + 4
    );
    // Until the next time theirs are where they were too: a packet may be on its way there.
    assert_eq!(far(folder.path()), 12 * 2 + 4 * 3);
    assert_eq!(leaves.retain(|ifindex| ifindex % 2 == 0).unwrap(), 0);
    assert_eq!(far(folder.path()), 12 * 2);
    for key in keys(1..25) {
        assert_eq!(is_there(key), key.tree.ifindex() % 2 == 0, "{key:?}");
        let again = (key.tree.ifindex() % 2 == 0).then(|| leaves.put(&key, &leaf(key)));
        again.transpose().unwrap();
    }
    assert!(keys(1..25).all(|key| is_there(key) == (key.tree.ifindex() % 2 == 0)));
    // New ones have the places, empty.
    for key in keys(30..34) {
        assert_eq!(leaves.get(&key).unwrap(), None, "{key:?}");
        leaves.put(&key, &leaf(key)).unwrap();
    }
    assert!(keys(30..34).chain(keys(24..25)).all(is_there));
    assert_eq!(leaves.retain(|_| false).unwrap(), (12 + 4) * slots.len());
}

#[test]
fn and_what_has_passed_beside_a_tree_that_has_a_place() {
    let Some((_folder, classes)) = classes() else {
        return;
    };
    let leaves = &classes.leaves;
    let ways = [Direction::Ingress, Direction::Egress].map(|way| Tree::new(7, way));
    let line = Line::new(1_000, 1, 60);
    for tree in ways {
        assert_eq!(leaves.line(tree).unwrap(), None);
        leaves.put_line(tree, &line).unwrap();
        assert_eq!(leaves.line(tree).unwrap(), None, "it has no place yet");
        let key = LeafKey::new(tree, Slot(0));
        leaves.put(&key, &leaf(key)).unwrap();
        assert_eq!(leaves.line(tree).unwrap(), Some(Line::default()));
    }
    leaves.put_line(ways[0], &line).unwrap();
    assert_eq!(leaves.line(ways[0]).unwrap(), Some(line));
    assert_eq!(leaves.line(ways[1]).unwrap(), Some(Line::default()));
    assert_eq!(leaves.retain(|_| false).unwrap(), 3);
    assert_eq!(leaves.line(ways[0]).unwrap(), None);
}

/// Asserts that `ensure` removes what an agent with another layout has pinned, and nothing else.
fn assert_ensure_removes_other_layouts(bpffs: &Path) {
    let netqos = bpffs.join("netqos");
    let other = netqos.join("classes-v1");
    fs::create_dir_all(&other).unwrap();
    fs::create_dir_all(netqos.join("v1")).unwrap();
    Classes::ensure(bpffs).unwrap();
    assert!(!other.exists());
    assert!(netqos.join("v1").exists());
    assert!(netqos.join("classes-v4").exists());
}

#[test]
fn ensure_removes_pins_of_other_layouts() {
    let Some(bpffs) = bpffs::private() else {
        return;
    };
    assert_ensure_removes_other_layouts(bpffs.path());
}

/// An agent that is killed between its own pins and the removal of the others leaves them.
#[test]
fn ensure_with_pinned_layout_removes_pins_of_other_layouts() {
    let Some((bpffs, _classes)) = classes() else {
        return;
    };
    assert_ensure_removes_other_layouts(bpffs.path());
}
