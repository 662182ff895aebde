//! Where the programs find how flows of a slot are told apart.
#![cfg(feature = "classes")]
#![allow(clippy::unwrap_used, missing_docs)]

use netqos_bpf::classes::{Classes, Leaf, LeafKey};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// The tables in a BPF file system that nobody else sees; `None`, with a reason, where that cannot be
/// had.
fn classes() -> Option<(tempfile::TempDir, Classes)> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: this test loads programs, which needs root");
        return None;
    }
    // SAFETY: a mount namespace only.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }.unwrap();
    let private = MountPropagationFlags::REC | MountPropagationFlags::PRIVATE;
    mount_change("/", private).unwrap();
    let folder = tempfile::tempdir().unwrap();
    mount("bpf", folder.path(), "bpf", MountFlags::empty(), None).unwrap();
    let classes = Classes::ensure(folder.path()).unwrap();
    Some((folder, classes))
}

fn leaf(of: LeafKey) -> Leaf {
    Leaf::new(u64::from(of.ifindex * 100_000 + of.slot), 1, 1)
}

#[test]
fn whether_they_are_of_the_first_trees_and_slots_or_not() {
    let Some((_folder, classes)) = classes() else {
        return;
    };
    let leaves = &classes.leaves;
    let slots = [0, 1, 511, 512, 16_000];
    let keys = |trees: std::ops::Range<u32>| {
        trees.flat_map(move |ifindex| slots.map(|slot| LeafKey { ifindex, slot }))
    };
    let is_there = |key: LeafKey| {
        let found = leaves.get(&key).unwrap();
        found.is_some_and(|found| found.is_same(&leaf(key)))
    };
    // More trees than there is room for in the array.
    for key in keys(1..13) {
        assert_eq!(leaves.get(&key).unwrap(), None, "{key:?}");
        leaves.put(&key, &leaf(key)).unwrap();
    }
    assert!(keys(1..13).all(is_there));
    // A tree stays where it is when others go, and what they had is forgotten.
    assert_eq!(
        leaves.retain(|ifindex| ifindex % 2 == 0).unwrap(),
        6 * slots.len()
    );
    assert_eq!(leaves.retain(|ifindex| ifindex % 2 == 0).unwrap(), 0);
    for key in keys(1..13) {
        assert_eq!(is_there(key), key.ifindex % 2 == 0, "{key:?}");
        let again = (key.ifindex % 2 == 0).then(|| leaves.put(&key, &leaf(key)));
        again.transpose().unwrap();
    }
    assert!(keys(1..13).all(|key| is_there(key) == (key.ifindex % 2 == 0)));
    // New ones have the places, empty.
    for key in keys(20..24) {
        assert_eq!(leaves.get(&key).unwrap(), None, "{key:?}");
        leaves.put(&key, &leaf(key)).unwrap();
    }
    assert!(keys(20..24).chain(keys(12..13)).all(is_there));
    assert_eq!(leaves.retain(|_| false).unwrap(), (6 + 4) * slots.len());
}
