//! The folders of pods, wherever the cgroup file systems are mounted.
//!
//! With cgroup v2 there is one tree. With v1 there is one for each controller, and the kubelet makes
//! the same folders in each: one of them is enough.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::names::{Folder, folder};

/// What was found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tree {
    /// The folder of each pod, by its uid.
    pub(super) pods: BTreeMap<Arc<str>, PathBuf>,
    /// Folders in which one of a pod may come.
    pub(super) above: Vec<PathBuf>,
}

impl Tree {
    /// Looks below this folder.
    pub(super) fn find(root: &Path) -> Self {
        let mut nothing = Self::default();
        for hierarchy in hierarchies(root) {
            let mut tree = Self::default();
            tree.walk(hierarchy, false);
            if !tree.pods.is_empty() {
                return tree;
            }
            nothing.above.append(&mut tree.above);
        }
        nothing
    }

    fn walk(&mut self, path: PathBuf, is_below: bool) {
        for name in folders(&path) {
            match folder(&name, is_below) {
                Some(Folder::OfPod(uid)) => {
                    self.pods.insert(uid, path.join(name));
                }
                Some(Folder::OfPods) => self.walk(path.join(name), true),
                Some(Folder::Above) => self.walk(path.join(name), is_below),
                None => {}
            }
        }
        self.above.push(path);
    }
}

/// The roots of cgroup trees: this folder itself, or those in it, v2 first, which tells of processes
/// that come.
fn hierarchies(root: &Path) -> Vec<PathBuf> {
    if is_cgroup(root) {
        return vec![root.to_owned()];
    }
    // Links give a tree with several controllers the name of each.
    let inside = folders(root).into_iter().map(|name| root.join(name));
    let mut inside: Vec<PathBuf> = inside.filter(|path| is_cgroup(path)).collect();
    inside.sort_by_key(|path| (!path.join("cgroup.controllers").exists(), path.clone()));
    inside
}

/// Where a cgroup is in its hierarchy, wherever that is mounted: `/kubepods.slice/…`.
pub(super) fn below_root(cgroup: &Path) -> PathBuf {
    let above = cgroup.ancestors().take_while(|path| is_cgroup(path));
    let below = above.last().and_then(|root| cgroup.strip_prefix(root).ok());
    Path::new("/").join(below.unwrap_or(Path::new("")))
}

fn is_cgroup(path: &Path) -> bool {
    path.join("cgroup.procs").exists()
}

/// The names of the folders in this one; those that cannot be read are none.
pub(super) fn folders(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let names = folders.filter_map(|folder| folder.file_name().into_string().ok());
    names.collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Folders as a cgroup file system has them.
    pub(in super::super) fn mkdir(root: &Path, path: &str) {
        fs::create_dir_all(root.join(path)).unwrap();
        let mut at = root.to_owned();
        for name in Path::new(path) {
            at.push(name);
            fs::write(at.join("cgroup.procs"), "").unwrap();
        }
    }

    fn found(root: &Path) -> Vec<(String, String)> {
        let tree = Tree::find(root);
        let pods = tree.pods.into_iter();
        pods.map(|(uid, path)| {
            let path = path.strip_prefix(root).unwrap().display().to_string();
            (uid.to_string(), path)
        })
        .collect()
    }

    fn is_above(root: &Path, path: &str) -> bool {
        Tree::find(root).above.contains(&root.join(path))
    }

    #[test]
    fn with_one_tree_pods_of_both_drivers_are_found() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        fs::write(root.join("cgroup.procs"), "").unwrap();
        assert_eq!(found(root), []);
        assert!(is_above(root, ""), "that kubepods comes is heard of");
        mkdir(root, "kubepods/besteffort");
        assert!(is_above(root, "kubepods/besteffort"));
        mkdir(root, "kubepods/poda-1/0123");
        mkdir(root, "kubepods/burstable/podb-2");
        mkdir(
            root,
            "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podc_3.slice/cri-containerd-1.scope",
        );
        mkdir(root, "system.slice/kubepods/podx");
        let burstable = "kubepods.slice/kubepods-burstable.slice";
        assert_eq!(
            found(root),
            [
                ("a-1".into(), "kubepods/poda-1".into()),
                ("b-2".into(), "kubepods/burstable/podb-2".into()),
                (
                    "c-3".into(),
                    format!("{burstable}/kubepods-burstable-podc_3.slice")
                ),
            ]
        );
        assert!(is_above(root, burstable));
        assert!(!is_above(root, "system.slice"));
        assert!(!is_above(root, "kubepods/poda-1"));
    }

    #[test]
    fn with_a_tree_for_each_controller_one_that_has_pods_is_enough() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        for controller in ["cpu,cpuacct", "memory", "net_cls", "unified"] {
            mkdir(root, controller);
        }
        fs::write(root.join("unified/cgroup.controllers"), "").unwrap();
        std::os::unix::fs::symlink("cpu,cpuacct", root.join("cpu")).unwrap();
        fs::create_dir(root.join("not mounted")).unwrap();
        assert_eq!(found(root), []);
        for tree in ["cpu,cpuacct", "memory", "net_cls", "unified"] {
            assert!(is_above(root, tree), "{tree}");
        }
        assert!(!is_above(root, "cpu"));
        mkdir(root, "net_cls/kubepods/poda");
        mkdir(root, "memory/kubepods/poda");
        assert_eq!(found(root), [("a".into(), "memory/kubepods/poda".into())]);
        assert!(!is_above(root, "net_cls"), "once is enough");
        mkdir(root, "unified/kubepods/poda");
        assert_eq!(found(root), [("a".into(), "unified/kubepods/poda".into())]);
    }

    #[test]
    fn a_cgroup_is_named_from_the_root_of_its_hierarchy() {
        let root = tempfile::tempdir().unwrap();
        mkdir(root.path(), "unified/kubelet/kubepods/poda");
        let pod = root.path().join("unified/kubelet/kubepods/poda");
        assert_eq!(below_root(&pod), Path::new("/kubelet/kubepods/poda"));
        assert_eq!(below_root(Path::new("/nowhere")), Path::new("/"));
    }

    #[test]
    fn where_there_is_no_such_folder_there_is_nothing() {
        assert_eq!(Tree::find(Path::new("/nowhere")), Tree::default());
    }
}
