//! Cgroups of pods, as a kubelet makes them, in a real tree.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicUsize, Ordering};

use netqos_testkit::Pod;

/// A tree of the test's own, in one of the machine's; gone when it is let go.
pub(crate) struct Tree {
    root: PathBuf,
}

/// Who names the cgroups.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Driver {
    Cgroupfs,
    Systemd,
}

/// A pod's processes.
pub(crate) struct Sandbox {
    folder: PathBuf,
    pauses: Vec<Child>,
}

/// How many trees this process has made.
static TREES: AtomicUsize = AtomicUsize::new(0);

impl Tree {
    /// In the tree of cgroup v2. `None`, said aloud: the machine has none.
    pub(crate) fn of_v2() -> Option<Self> {
        Self::below("cgroup2", |_| true)
    }

    /// In one of v1 in which a process may be without more ado.
    pub(crate) fn of_v1() -> Option<Self> {
        let takes_all = |options: &str| {
            let mut options = options.split(',');
            options.any(|it| ["pids", "freezer", "net_cls", "name=systemd"].contains(&it))
        };
        Self::below("cgroup", takes_all)
    }

    fn below(kind: &str, is_meant: impl Fn(&str) -> bool) -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let number = TREES.fetch_add(1, Ordering::Relaxed);
        let name = format!("netqos-test-{}-{number}", std::process::id());
        let made = mounts.lines().find_map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let is_it = words[2] == kind && is_meant(words[3]);
            let root = Path::new(words[1]).join(&name);
            (is_it && fs::create_dir(&root).is_ok()).then_some(root)
        });
        if made.is_none() {
            eprintln!("skipped: no {kind} is mounted here that can be written to");
        }
        made.map(|root| Self { root })
    }

    pub(crate) fn path(&self) -> &str {
        self.root.to_str().unwrap()
    }

    /// Makes a pod's cgroup with one container, and no process in it.
    pub(crate) fn sandbox(&self, uid: &str, driver: Driver) -> Sandbox {
        let path = match driver {
            Driver::Cgroupfs => format!("kubepods/burstable/pod{uid}/0123"),
            Driver::Systemd => format!(
                "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{}.slice/\
                 cri-containerd-0123.scope",
                uid.replace('-', "_")
            ),
        };
        let folder = self.root.join(path);
        fs::create_dir_all(&folder).unwrap();
        Sandbox {
            folder,
            pauses: Vec::new(),
        }
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        remove(&self.root);
    }
}

impl Sandbox {
    /// A process in this pod's namespace.
    pub(crate) fn run_in(&mut self, pod: &Pod) -> u32 {
        let pause = pod.inside(pause).unwrap();
        self.take(pause)
    }

    /// A process in the node's own namespace.
    pub(crate) fn run_on_host(&mut self) -> u32 {
        self.take(pause())
    }

    fn take(&mut self, pause: Child) -> u32 {
        let process = pause.id();
        self.pauses.push(pause);
        fs::write(self.folder.join("cgroup.procs"), process.to_string()).unwrap();
        process
    }

    /// Ends its first process.
    pub(crate) fn end_first(&mut self) {
        end(self.pauses.remove(0));
    }

    /// Another container of the same pod.
    pub(crate) fn another_container(&self) -> Self {
        let folder = self.folder.with_file_name("4567");
        fs::create_dir(&folder).unwrap();
        Self {
            folder,
            pauses: Vec::new(),
        }
    }

    /// Takes the container's cgroup away, in which nothing is any more.
    pub(crate) fn remove_container(&self) {
        remove(&self.folder);
    }

    /// Ends its processes, and takes its cgroup away.
    pub(crate) fn remove(mut self) {
        self.pauses.drain(..).for_each(end);
        remove(self.folder.parent().unwrap());
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        self.pauses.drain(..).for_each(end);
    }
}

fn pause() -> Child {
    Command::new("sleep").arg("600").spawn().unwrap()
}

fn end(mut pause: Child) {
    let _ = pause.kill();
    let _ = pause.wait();
}

/// Folders alone: that is how cgroups are removed.
fn remove(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path());
        }
    }
    // A process may be on its way out.
    for _ in 0..200 {
        if fs::remove_dir(folder).is_ok() || !folder.exists() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    eprintln!("{} is left", folder.display());
}
