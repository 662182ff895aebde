//! A cgroup of a test's own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

/// A cgroup, which goes when it is dropped.
pub struct Group {
    pub root: PathBuf,
    pub path: PathBuf,
}

/// Where cgroups of version 2 are on this machine.
pub fn unified() -> PathBuf {
    let paths = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(PathBuf::from);
    let found = paths
        .into_iter()
        .find(|path| path.join("cgroup.controllers").exists());
    found.expect("a cgroup hierarchy of version 2")
}

impl Group {
    pub fn new(root: PathBuf) -> Self {
        let name = format!(
            "netqos-test-{}-{:?}",
            std::process::id(),
            thread::current().id()
        );
        let path = root.join(name.replace(['(', ')'], "")).join("pod");
        fs::create_dir_all(&path).unwrap();
        Self { root, path }
    }

    pub fn below(&self) -> PathBuf {
        Path::new("/").join(self.path.strip_prefix(&self.root).unwrap())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Whoever was in it has ended; the kernel may need a moment to see that.
        for _ in 0..50 {
            if fs::remove_dir(&self.path).is_ok() {
                break;
            }
            thread::sleep(Duration::from_millis(20));
        }
        let _ = self.path.parent().map(fs::remove_dir);
        if self.root.starts_with("/run") {
            let _ = Command::new("umount").arg(&self.root).status();
        }
    }
}
