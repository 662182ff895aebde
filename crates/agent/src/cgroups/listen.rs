//! What is heard of the folders of pods, and of those above.
//!
//! Where the node gives no more of inotify, nothing is heard of any, until it does: half of them heard
//! would look like all.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use netqos_core::Problem;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

use super::tree::Tree;
use crate::watch::{self, DEAF};
use crate::{Error, Result};

const FOLDERS: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::ONLYDIR);
/// With v2, that the first process of a cgroup comes and the last one goes is a change of this file.
const EVENTS: &str = "cgroup.events";
/// After the first event of a burst, how long it is waited for the next, and for all.
const QUIET: Duration = Duration::from_millis(2);
const AT_MOST: Duration = Duration::from_millis(20);

/// Listens to folders.
#[derive(Debug)]
pub(super) struct Ears {
    /// By what it hears, or why it does not.
    ear: std::result::Result<OwnedFd, Errno>,
    by_number: HashMap<i32, Place>,
    numbers: HashMap<PathBuf, i32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Above(PathBuf),
    Pod(PathBuf, Arc<str>),
}

/// What was heard.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Heard {
    /// Pods may have come or gone.
    pub(super) tree: bool,
    /// Containers or processes of these have.
    pub(super) pods: BTreeSet<Arc<str>>,
}

impl Ears {
    pub(super) fn new() -> Self {
        Self {
            ear: init(),
            by_number: HashMap::new(),
            numbers: HashMap::new(),
        }
    }

    /// True where nothing is heard, whatever happens.
    pub(super) fn are_deaf(&self) -> bool {
        self.ear.is_err()
    }

    /// Why nothing is heard, and what to do, where that is so.
    pub(super) fn deafness(&self, root: &Path) -> Option<Problem> {
        let why = self.ear.as_ref().err()?;
        Some(watch::exhausted(root, *why))
    }

    /// Finds the pods, and listens to their folders from now on, if it can: nothing that comes after
    /// what is returned was found is missed then.
    pub(super) fn find(&mut self, root: &Path) -> Tree {
        if self.ear.is_err() {
            self.ear = init();
        }
        // Each round finds what had come before the round before it began to listen.
        for _ in 0..16 {
            let tree = Tree::find(root);
            match self.listen(&tree) {
                Ok(true) => {}
                Ok(false) => return tree,
                Err(why) => {
                    self.fall_deaf(why);
                    return tree;
                }
            }
        }
        Tree::find(root)
    }

    /// Hears nothing any more, until it finds again.
    fn fall_deaf(&mut self, why: Errno) {
        self.ear = Err(why);
        self.by_number.clear();
        self.numbers.clear();
    }

    /// True when there is something to listen to that was not before.
    fn listen(&mut self, tree: &Tree) -> std::result::Result<bool, Errno> {
        let Ok(ear) = &self.ear else {
            return Ok(false);
        };
        let above = tree.above.iter();
        let above = above.map(|path| (path.clone(), Place::Above(path.clone())));
        let mut wanted: BTreeMap<PathBuf, Place> = above.collect();
        for (uid, path) in &tree.pods {
            // A change of the file is told to who watches it, and not by its folder.
            for path in [path.clone(), path.join(EVENTS)] {
                wanted.insert(path.clone(), Place::Pod(path, uid.clone()));
            }
        }
        let gone = self
            .numbers
            .keys()
            .filter(|path| !wanted.contains_key(*path));
        let gone: Vec<PathBuf> = gone.cloned().collect();
        for path in gone {
            if let Some(number) = self.numbers.remove(&path) {
                self.by_number.remove(&number);
                // It is gone with its folder.
                let _ = inotify::remove_watch(ear, number);
            }
        }
        let mut is_new = false;
        for (path, place) in wanted {
            if self.numbers.contains_key(&path) {
                continue;
            }
            let flags = match path.ends_with(EVENTS) {
                true => WatchFlags::MODIFY,
                false => FOLDERS,
            };
            match inotify::add_watch(ear, &path, flags) {
                Ok(number) => {
                    self.numbers.insert(path, number);
                    self.by_number.insert(number, place);
                    is_new = true;
                }
                // It went in between, or it is the file that v1 does not have.
                Err(Errno::NOENT | Errno::NOTDIR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(is_new)
    }

    /// Waits until something is heard, and then until it is quiet again; at most for so long, and
    /// where nothing can be heard, not for long.
    pub(super) fn wait(&mut self, timeout: Duration) -> Result<Heard> {
        let mut heard = Heard::default();
        if self.ear.is_err() {
            thread::sleep(timeout.min(DEAF));
            return Ok(heard);
        }
        let until = Instant::now() + timeout;
        let mut burst: Option<Instant> = None;
        loop {
            let left = match burst {
                Some(began) => QUIET.min(AT_MOST.saturating_sub(began.elapsed())),
                None => until.saturating_duration_since(Instant::now()),
            };
            let timespec = Timespec {
                tv_sec: left.as_secs() as i64,
                tv_nsec: i64::from(left.subsec_nanos()),
            };
            let Ok(ear) = &self.ear else {
                return Ok(heard);
            };
            match poll(&mut [PollFd::new(ear, PollFlags::IN)], Some(&timespec)) {
                Ok(0) => return Ok(heard),
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(failed(errno)),
            }
            self.read(&mut heard);
            if heard != Heard::default() && left.is_zero() {
                return Ok(heard);
            }
            if heard != Heard::default() {
                burst.get_or_insert_with(Instant::now);
            }
        }
    }

    fn read(&mut self, heard: &mut Heard) {
        let Ok(ear) = &self.ear else {
            return;
        };
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(ear.as_fd(), &mut buffer);
        loop {
            let event = match reader.next() {
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => continue,
                Err(errno) => {
                    heard.tree = true;
                    return self.fall_deaf(errno);
                }
                Ok(event) => event,
            };
            let what = event.events();
            if what.contains(ReadFlags::QUEUE_OVERFLOW) {
                heard.tree = true;
                heard
                    .pods
                    .extend(self.by_number.values().filter_map(Place::pod));
                continue;
            }
            // The folder is gone, and its number with it: another may come by its path.
            if what.contains(ReadFlags::IGNORED) {
                if let Some(Place::Above(path) | Place::Pod(path, _)) =
                    self.by_number.remove(&event.wd())
                {
                    self.numbers.remove(&path);
                    heard.tree = true;
                }
                continue;
            }
            match self.by_number.get(&event.wd()) {
                Some(Place::Above(_)) => heard.tree = true,
                Some(Place::Pod(_, uid)) => {
                    heard.pods.insert(uid.clone());
                }
                None => {}
            }
        }
    }
}

impl Place {
    fn pod(&self) -> Option<Arc<str>> {
        match self {
            Self::Pod(_, uid) => Some(uid.clone()),
            Self::Above(_) => None,
        }
    }
}

fn init() -> std::result::Result<OwnedFd, Errno> {
    inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)
}

fn failed(errno: Errno) -> Error {
    Error::Watch(io::Error::from(errno))
}

#[cfg(test)]
mod tests {
    use super::super::tree::tests::mkdir;
    use super::*;
    use std::fs;

    fn heard(ears: &mut Ears) -> (bool, Vec<String>) {
        let heard = ears.wait(Duration::from_millis(200)).unwrap();
        let pods = heard.pods.iter().map(ToString::to_string);
        (heard.tree, pods.collect())
    }

    #[test]
    fn pods_that_come_and_go_and_what_happens_in_them_is_heard() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        fs::write(root.join("cgroup.procs"), "").unwrap();
        let mut ears = Ears::new();
        assert!(ears.find(root).pods.is_empty());
        assert_eq!(heard(&mut ears), (false, vec![]));
        // Folders and what is in them, at once.
        mkdir(root, "kubepods/burstable/poda");
        assert_eq!(heard(&mut ears), (true, vec![]));
        let pod = root.join("kubepods/burstable/poda");
        fs::write(pod.join(EVENTS), "populated 0\n").unwrap();
        assert_eq!(ears.find(root).pods.len(), 1);
        fs::create_dir(pod.join("container")).unwrap();
        assert_eq!(heard(&mut ears), (false, vec!["a".into()]));
        fs::write(pod.join(EVENTS), "populated 1\n").unwrap();
        assert_eq!(heard(&mut ears), (false, vec!["a".into()]));
        fs::remove_dir(pod.join("container")).unwrap();
        assert_eq!(heard(&mut ears), (false, vec!["a".into()]));
        // Another one of the same name, which is not the same folder.
        fs::remove_dir_all(&pod).unwrap();
        assert!(heard(&mut ears).0);
        mkdir(root, "kubepods/burstable/poda");
        assert!(heard(&mut ears).0);
        assert_eq!(ears.find(root).pods.len(), 1);
        fs::create_dir(pod.join("container")).unwrap();
        assert_eq!(heard(&mut ears), (false, vec!["a".into()]));
    }
}
