//! The processes of a cgroup, and the network namespaces that they are in.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::names::pod_of;
use super::tree::folders;

/// How deep cgroups below that of a pod are looked into: containers, and what they nest.
const DEPTH: usize = 4;

/// Device and inode of a namespace.
pub(super) type Namespace = (u64, u64);

/// The processes of the host.
#[derive(Debug)]
pub(super) struct Processes {
    proc: PathBuf,
    /// The namespaces that are no pod's: of this process, and of the host's first.
    hosts: Vec<Namespace>,
    /// By the pods that they are of, where cgroups do not say; until [`forget`](Self::forget).
    scanned: Option<HashMap<Arc<str>, Vec<u32>>>,
}

impl Processes {
    /// Those that are to be seen in this folder, `/proc` on a host.
    pub(super) fn new(proc: PathBuf) -> Self {
        let first = proc.join("1/ns/net");
        let hosts = [Path::new("/proc/thread-self/ns/net"), &first];
        let hosts = hosts.into_iter().filter_map(|path| identity(path).ok());
        Self {
            hosts: hosts.collect(),
            proc,
            scanned: None,
        }
    }

    /// What was looked at may be another by now.
    pub(super) fn forget(&mut self) {
        self.scanned = None;
    }

    /// The processes of a pod whose cgroup is at this folder. `None`: there are some, and they are not
    /// to be seen.
    pub(super) fn of(&mut self, uid: &str, folder: &Path) -> Option<Vec<u32>> {
        let mut all = Vec::new();
        collect(folder, DEPTH, &mut all);
        // A process that is in no PID namespace of the reader's is written 0. Then what each says
        // of itself counts.
        if !all.is_empty() && all.iter().all(|process| *process == 0) {
            let proc = &self.proc;
            let scanned = self.scanned.get_or_insert_with(|| scan(proc));
            return scanned.get(uid).cloned();
        }
        all.retain(|process| *process != 0);
        Some(all)
    }

    /// The file that names a process's network namespace.
    pub(super) fn path(&self, process: u32) -> PathBuf {
        self.proc.join(process.to_string()).join("ns/net")
    }

    /// The namespace that a process is in; `None` where that is no pod's.
    ///
    /// # Errors
    /// It is not there any more, or may not be looked at.
    pub(super) fn namespace(&self, process: u32) -> io::Result<Option<Namespace>> {
        let namespace = identity(&self.path(process))?;
        Ok(Some(namespace).filter(|namespace| !self.hosts.contains(namespace)))
    }

    /// When a process began, in ticks since the machine did.
    pub(super) fn began(&self, process: u32) -> Option<u64> {
        let stat = fs::read_to_string(self.proc.join(process.to_string()).join("stat")).ok()?;
        // Its name may have anything in it but is in parentheses; of what follows, the twentieth.
        let (_, fields) = stat.rsplit_once(')')?;
        fields.split_whitespace().nth(19)?.parse().ok()
    }
}

/// The namespace that a file names.
pub(super) fn identity(path: &Path) -> io::Result<Namespace> {
    let metadata = fs::metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

fn collect(folder: &Path, depth: usize, all: &mut Vec<u32>) {
    let text = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    all.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()));
    if depth > 0 {
        for name in folders(folder) {
            collect(&folder.join(name), depth - 1, all);
        }
    }
}

fn scan(proc: &Path) -> HashMap<Arc<str>, Vec<u32>> {
    let mut found: HashMap<Arc<str>, Vec<u32>> = HashMap::new();
    let numbers = folders(proc).into_iter();
    for process in numbers.filter_map(|name| name.parse::<u32>().ok()) {
        let path = proc.join(process.to_string()).join("cgroup");
        let text = fs::read_to_string(path).unwrap_or_default();
        // `number:controllers:path`, of each tree.
        let paths = text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
        if let Some(uid) = paths.filter_map(pod_of).next() {
            found.entry(uid).or_default().push(process);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::tree::tests::mkdir;
    use super::*;

    #[test]
    fn a_pods_processes_are_those_of_all_its_containers() {
        let root = tempfile::tempdir().unwrap();
        mkdir(root.path(), "pod1/a");
        mkdir(root.path(), "pod1/b/nested");
        fs::write(root.path().join("pod1/a/cgroup.procs"), "7\n8\n").unwrap();
        fs::write(root.path().join("pod1/b/nested/cgroup.procs"), "9\n0\n").unwrap();
        let mut processes = Processes::new("/proc".into());
        let mut of = |uid: &str| {
            let mut found = processes.of(uid, &root.path().join(format!("pod{uid}")))?;
            found.sort_unstable();
            Some(found)
        };
        assert_eq!(of("1"), Some(vec![7, 8, 9]));
        assert_eq!(of("2"), Some(vec![]));
    }

    /// An agent in a PID namespace of its own sees no numbers in cgroups, but may be given the
    /// host's `/proc`.
    #[test]
    fn where_cgroups_show_no_numbers_processes_say_whose_they_are() {
        let (root, proc) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        mkdir(root.path(), "pod1/a");
        fs::write(root.path().join("pod1/a/cgroup.procs"), "0\n0\n").unwrap();
        let folder = root.path().join("pod1");
        let mut processes = Processes::new(proc.path().to_owned());
        for (process, text) in [
            ("41", "0::/system.slice/x\n"),
            ("42", "4:memory:/kubepods/pod1/a\n3:cpu:/\n"),
            ("43", "0::/kubepods.slice/kubepods-pod1.slice/b:c\n"),
            ("44", "0::/kubepods/pod2\n"),
            ("self", "0::/kubepods/pod1\n"),
        ] {
            fs::create_dir(proc.path().join(process)).unwrap();
            fs::write(proc.path().join(process).join("cgroup"), text).unwrap();
        }
        let mut found = processes.of("1", &folder).unwrap();
        found.sort_unstable();
        assert_eq!(found, [42, 43]);
        fs::remove_dir_all(proc.path().join("42")).unwrap();
        assert_eq!(
            processes.of("1", &folder).unwrap().len(),
            2,
            "looked at once"
        );
        processes.forget();
        assert_eq!(processes.of("1", &folder), Some(vec![43]));
        // Nor may it: then nobody says so.
        fs::remove_dir_all(proc.path().join("43")).unwrap();
        processes.forget();
        assert_eq!(processes.of("1", &folder), None);
    }

    #[test]
    fn when_a_process_began_is_read_whatever_it_is_called() {
        let proc = tempfile::tempdir().unwrap();
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 12345 1000 2";
        fs::create_dir(proc.path().join("7")).unwrap();
        fs::write(proc.path().join("7/stat"), stat).unwrap();
        let processes = Processes::new(proc.path().to_owned());
        assert_eq!(processes.began(7), Some(12_345));
        assert_eq!(processes.began(8), None);
        let own = Processes::new("/proc".into());
        assert!(own.began(std::process::id()) > own.began(1));
    }

    #[test]
    fn the_hosts_namespace_is_no_pods() {
        let processes = Processes::new("/proc".into());
        let own = std::process::id();
        assert_eq!(processes.namespace(own).unwrap(), None);
        assert!(processes.namespace(u32::MAX).is_err());
    }
}
