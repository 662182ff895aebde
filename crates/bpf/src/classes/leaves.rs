//! How flows are told apart, by tree and slot: in an array what most packets ask for, the rest in a table;
//! and when a tree is passed by.

use std::collections::BTreeMap;
use std::path::Path;

use super::layout::{Leaf, LeafKey, NEAR_SLOTS, Tree, Trees};
use super::line::Line;
use super::numbered::Numbered;
use crate::Result;
use crate::rules::{Entries, Table};

/// The slots of each tree.
#[derive(Debug)]
pub struct Leaves {
    trees: Numbered<Trees>,
    near: Numbered<Leaf>,
    lines: Numbered<Line>,
    far: Table<LeafKey, Leaf>,
}

impl Leaves {
    /// The maps that are pinned in this folder.
    pub(super) fn open(folder: &Path) -> Result<Self> {
        Ok(Self {
            trees: Numbered::open(&folder.join("trees"))?,
            near: Numbered::open(&folder.join("near_leaves"))?,
            lines: Numbered::open(&folder.join("near_lines"))?,
            far: Table::open(&folder.join("leaves"))?,
        })
    }

    /// What is known of a slot in a tree.
    pub fn get(&self, key: &LeafKey) -> Result<Option<Leaf>> {
        match self.trees()?.place(key) {
            Some(place) => self.near.get(&place),
            None => self.far.get(key),
        }
    }

    /// Says how flows of a slot in a tree are told apart. A tree whose system's slot comes first is near,
    /// where there is room for one more.
    pub fn put(&self, key: &LeafKey, leaf: &Leaf) -> Result<()> {
        let mut trees = self.trees()?;
        let is_new = key.slot == 0 && !trees.has(key.tree) && self.far.get(key)?.is_none();
        if let Some(free) = trees.position(Tree::default()).filter(|_| is_new) {
            trees.0[free] = key.tree;
            // The leaf before the tree: a packet finds both, or neither.
            self.near.put(&(free as u32 * NEAR_SLOTS), leaf)?;
            return self.trees.put(&0, &trees);
        }
        match trees.place(key) {
            Some(place) => self.near.put(&place, leaf),
            None => self.far.put(key, leaf),
        }
    }

    /// When packets pass beside a tree, and what did. `None` of a tree that has no place: all of its packets are
    /// divided.
    pub fn line(&self, tree: Tree) -> Result<Option<Line>> {
        match self.trees()?.position(tree) {
            Some(place) => Ok(Some(self.lines.get(&(place as u32))?.unwrap_or_default())),
            None => Ok(None),
        }
    }

    /// Says when packets pass beside a tree that has a place.
    pub fn put_line(&self, tree: Tree, line: &Line) -> Result<()> {
        match self.trees()?.position(tree) {
            Some(place) => self.lines.put(&(place as u32), line),
            None => Ok(()),
        }
    }

    /// Forgets the slots of all trees but those of these lines; trees that had no place take those that come
    /// to be free. How many changes that took.
    pub fn retain(&self, keep: impl Fn(u32) -> bool) -> Result<usize> {
        let mut removed = 0;
        for key in self
            .far
            .keys()?
            .iter()
            .filter(|key| !keep(key.tree.ifindex()))
        {
            removed += usize::from(self.far.remove(key)?);
        }
        let mut trees = self.trees()?;
        let is_stale = |tree: Tree| tree != Tree::default() && !keep(tree.ifindex());
        let stale = (0..).zip(trees.0).filter(|(_, tree)| is_stale(*tree));
        let stale: Vec<u32> = stale.map(|(place, _)| place).collect();
        for place in stale {
            for slot in 0..NEAR_SLOTS {
                removed += usize::from(self.near.remove(&(place * NEAR_SLOTS + slot))?);
            }
            removed += usize::from(self.lines.remove(&place)?);
            // The last: its place is given away once it is empty.
            trees.0[place as usize] = Tree::default();
            self.trees.put(&0, &trees)?;
        }
        Ok(removed + self.bring_near(trees)?)
    }

    /// Gives free places to trees that have none. Where their leaves were they are forgotten the next time: until
    /// then a program may look for them there that has found no place of the tree.
    fn bring_near(&self, mut trees: Trees) -> Result<usize> {
        let mut far = BTreeMap::<Tree, Vec<LeafKey>>::new();
        let keys = self.far.keys()?.into_iter();
        for key in keys.filter(|key| key.slot < NEAR_SLOTS) {
            far.entry(key.tree).or_default().push(key);
        }
        let mut changes = 0;
        for (tree, keys) in far {
            if trees.has(tree) {
                for key in &keys {
                    self.far.remove(key)?;
                }
                continue;
            }
            let Some(free) = trees.position(Tree::default()) else {
                continue;
            };
            for key in &keys {
                if let Some(leaf) = self.far.get(key)? {
                    let place = free as u32 * NEAR_SLOTS + key.slot;
                    self.near.put(&place, &leaf)?;
                }
            }
            // Leaves before their tree: a packet finds them there, or where they were.
            trees.0[free] = tree;
            self.trees.put(&0, &trees)?;
            changes += 1;
        }
        Ok(changes)
    }

    fn trees(&self) -> Result<Trees> {
        Ok(self.trees.get(&0)?.unwrap_or_default())
    }
}

impl Trees {
    fn position(&self, tree: Tree) -> Option<usize> {
        self.0.iter().position(|there| *there == tree)
    }

    fn has(&self, tree: Tree) -> bool {
        self.position(tree).is_some()
    }

    /// Where a leaf is in the array; `None` of one that is in the table.
    fn place(&self, key: &LeafKey) -> Option<u32> {
        let tree = self.position(key.tree)?;
        (key.slot < NEAR_SLOTS).then_some(tree as u32 * NEAR_SLOTS + key.slot)
    }
}
