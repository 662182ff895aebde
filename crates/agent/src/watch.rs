//! Folders, watched: which of their files were written to their end, put there, or taken away.
//!
//! A folder that is not there is waited for: the nearest one above it is watched instead.
//!
//! What a node has of inotify can be used up by others (`fs.inotify.max_user_instances`,
//! `max_user_watches`). Nothing is heard then, which whoever waits is told by [`deafness`], and told
//! soon that nothing was heard; it is tried again each time.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use netqos_core::{ObjectRef, Problem, Reason};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

use crate::{Error, Result};

/// What is heard of the folder.
const HEARD: WatchFlags = WatchFlags::CLOSE_WRITE
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::CREATE)
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR);
/// What is heard of a folder into which files are renamed once they are whole.
const RENAMED: WatchFlags = WatchFlags::MOVED_TO
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR);
/// After the first event of a burst, how long it is waited for the next, and for all.
const QUIET: Duration = Duration::from_millis(2);
const AT_MOST: Duration = Duration::from_millis(20);
/// How long it is waited at most where nothing can be heard.
pub(crate) const DEAF: Duration = Duration::from_secs(2);

/// A watched folder.
#[derive(Debug)]
pub(crate) struct Watch {
    /// By what it hears, or why it does not.
    ear: std::result::Result<OwnedFd, Errno>,
    folder: PathBuf,
    /// True if files come into the folder by renaming: each is whole at once.
    by_renaming: bool,
    /// What is watched now: the folder, or one above it, with its number.
    on: Option<(i32, PathBuf, Identity)>,
    /// Files that somebody is writing to.
    open: BTreeSet<String>,
}

/// Device and inode.
type Identity = (u64, u64);

/// What was heard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Heard {
    /// The files that may have become others.
    pub(crate) files: BTreeSet<String>,
    /// The whole folder may have.
    pub(crate) everything: bool,
}

impl Watch {
    /// Watches this folder, from now on, or as soon as the node lets it.
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self::with(folder, false)
    }

    /// The same of a folder whose files are written elsewhere or under other names, and renamed. Nothing is heard of the
    /// writing, and no burst is waited for: a process that sleeps is woken once for each file.
    pub(crate) fn of_renamed(folder: PathBuf) -> Self {
        Self::with(folder, true)
    }

    fn with(folder: PathBuf, by_renaming: bool) -> Self {
        let mut watch = Self {
            ear: Err(Errno::MFILE),
            folder,
            by_renaming,
            on: None,
            open: BTreeSet::new(),
        };
        watch.listen();
        watch
    }

    /// Begins to listen, where it does not.
    fn listen(&mut self) {
        if self.ear.is_ok() {
            return;
        }
        self.on = None;
        self.open.clear();
        let flags = CreateFlags::NONBLOCK | CreateFlags::CLOEXEC;
        self.ear = inotify::init(flags);
        self.aim();
    }

    /// Hears nothing any more, until it listens again.
    fn fall_deaf(&mut self, why: Errno) {
        self.ear = Err(why);
        self.on = None;
        self.open.clear();
    }

    /// True while somebody is writing to this file, as far as was heard.
    pub(crate) fn is_being_written(&self, name: &str) -> bool {
        self.open.contains(name)
    }

    /// Watches the folder, or what is nearest to it; true when that is another than before, or
    /// cannot be.
    pub(crate) fn aim(&mut self) -> bool {
        let before = self.on.as_ref().map(|(_, _, identity)| *identity);
        for _ in 0..64 {
            let nearest = self.folder.ancestors().find(|path| path.is_dir());
            let nearest = nearest.unwrap_or(Path::new("/")).to_owned();
            let Some(identity) = identity(&nearest) else {
                continue;
            };
            let aimed = self.on.as_ref();
            if aimed.is_some_and(|(_, path, now)| *path == nearest && *now == identity) {
                return before != Some(identity);
            }
            let Ok(ear) = &self.ear else {
                return true;
            };
            if let Some((number, ..)) = self.on.take() {
                let _ = inotify::remove_watch(ear, number);
            }
            // What is above the folder is watched for the folder to come.
            let flags = match self.by_renaming && nearest == self.folder {
                true => RENAMED,
                false => HEARD,
            };
            match inotify::add_watch(ear, &nearest, flags) {
                Ok(number) => self.on = Some((number, nearest, identity)),
                // It went in between.
                Err(Errno::NOENT | Errno::NOTDIR) => {}
                Err(errno) => {
                    self.fall_deaf(errno);
                    return true;
                }
            }
            // Once more: what came before it was watched was not heard of.
        }
        true
    }

    /// Takes note of all that was heard up to now. Returns true if there was anything.
    fn read(&mut self, heard: &mut Heard) -> bool {
        let Ok(ear) = &self.ear else {
            return false;
        };
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let (mut is_any, mut lost_aim) = (false, false);
        let on_folder = self
            .on
            .as_ref()
            .is_some_and(|(_, on, _)| *on == self.folder);
        let number = self.on.as_ref().map(|(number, ..)| *number);
        let mut reader = inotify::Reader::new(ear.as_fd(), &mut buffer);
        loop {
            let event = match reader.next() {
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => continue,
                Err(errno) => {
                    heard.everything = true;
                    self.fall_deaf(errno);
                    return true;
                }
                Ok(event) => event,
            };
            is_any = true;
            let what = event.events();
            if what.contains(ReadFlags::QUEUE_OVERFLOW) {
                heard.everything = true;
                lost_aim = true;
                self.open.clear();
                continue;
            }
            if Some(event.wd()) != number {
                continue;
            }
            let gone = ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::IGNORED;
            if !on_folder || what.intersects(gone | ReadFlags::UNMOUNT) {
                lost_aim = true;
                continue;
            }
            let Some(name) = event.file_name().and_then(|name| name.to_str().ok()) else {
                continue;
            };
            if what.intersects(ReadFlags::MODIFY | ReadFlags::CREATE) {
                self.open.insert(name.to_owned());
                // What is made without being opened: links.
                if what.contains(ReadFlags::CREATE) && is_link(&self.folder.join(name)) {
                    self.open.remove(name);
                    heard.files.insert(name.to_owned());
                }
            } else {
                self.open.remove(name);
                heard.files.insert(name.to_owned());
            }
        }
        if lost_aim {
            if !on_folder
                || self
                    .on
                    .as_ref()
                    .is_some_and(|(_, on, was)| identity(on) != Some(*was))
            {
                self.open.clear();
            }
            // Its number is no more, though the path may be the same.
            if on_folder && let Some((number, ..)) = self.on.take() {
                let _ = inotify::remove_watch(ear, number);
            }
            heard.everything |= self.aim();
        }
        is_any
    }
}

/// Why nothing is heard of some of these folders, and what to do, where that is so.
pub(crate) fn deafness(watches: &[Watch]) -> Option<Problem> {
    let deaf = watches.iter().find_map(|watch| {
        let why = watch.ear.as_ref().err()?;
        Some((&watch.folder, *why))
    });
    deaf.map(|(folder, why)| exhausted(folder, why))
}

/// That nothing can be heard of a folder.
pub(crate) fn exhausted(folder: &Path, why: Errno) -> Problem {
    let what = match why {
        Errno::MFILE => "fs.inotify.max_user_instances, which is used up",
        Errno::NOSPC => "fs.inotify.max_user_watches, which is used up",
        _ => "fs.inotify.max_user_instances and max_user_watches",
    };
    Problem {
        object: ObjectRef::File(folder.display().to_string()),
        reason: Reason::InotifyExhausted,
        message: format!(
            "the node gives no inotify to hear of changes in {} by ({}); they are looked for every \
             {} s instead: raise {what}",
            folder.display(),
            io::Error::from(why),
            DEAF.as_secs()
        ),
    }
}

/// Waits until something is heard of any of these folders, and then, unless files are renamed into it, until it is quiet. Empty
/// when nothing was for so long, or could be: all is to be looked at then.
pub(crate) fn wait(watches: &mut [Watch], timeout: Duration) -> Result<BTreeMap<usize, Heard>> {
    let mut heard: BTreeMap<usize, Heard> = BTreeMap::new();
    let are_deaf = watches.iter().enumerate();
    let are_deaf = are_deaf.filter(|(_, watch)| watch.ear.is_err());
    let deaf: Vec<usize> = are_deaf.map(|(index, _)| index).collect();
    let timeout = match deaf.is_empty() {
        true => timeout,
        false => timeout.min(DEAF),
    };
    let until = Instant::now() + timeout;
    while heard.is_empty() && is_told(watches, until)? {
        let began = Instant::now();
        // Pauses, and not one poll after the other, which would return for each event of many.
        while take(watches, &mut heard) && began.elapsed() < AT_MOST {
            thread::sleep(QUIET);
        }
        // What is told without end must not put off what is due.
        if Instant::now() >= until {
            break;
        }
    }
    for index in deaf {
        let Some(watch) = watches.get_mut(index) else {
            continue;
        };
        watch.listen();
        // What came before it was heard of, or is not heard of while others are.
        if watch.ear.is_ok() || !heard.is_empty() {
            heard.entry(index).or_default().everything = true;
        }
    }
    Ok(heard)
}

/// Waits until one of these folders has events to be read. Returns false if none has by then.
fn is_told(watches: &[Watch], until: Instant) -> Result<bool> {
    loop {
        let ears = watches.iter().filter_map(|watch| watch.ear.as_ref().ok());
        let mut polled: Vec<PollFd<'_>> = ears.map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        let left = until.saturating_duration_since(Instant::now());
        let timespec = Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        match poll(&mut polled, Some(&timespec)) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(Error::Watch(io::Error::from(errno))),
        }
    }
}

/// Reads the events of all these folders. Returns true if more may come at once.
fn take(watches: &mut [Watch], heard: &mut BTreeMap<usize, Heard>) -> bool {
    let mut is_burst = false;
    for (index, watch) in watches.iter_mut().enumerate() {
        let mut one = heard.remove(&index).unwrap_or_default();
        is_burst |= watch.read(&mut one) && !watch.by_renaming;
        if one != Heard::default() {
            heard.insert(index, one);
        }
    }
    is_burst
}

/// True for what is whole as soon as it is there: a symbolic link, or another name of a file.
fn is_link(path: &Path) -> bool {
    path.symlink_metadata()
        .is_ok_and(|it| it.file_type().is_symlink() || it.nlink() > 1)
}

fn identity(path: &Path) -> Option<Identity> {
    let metadata = path.metadata().ok()?;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;

    use super::*;

    const SOON: Duration = Duration::from_millis(200);

    fn next(watch: &mut [Watch]) -> Heard {
        wait(watch, SOON).unwrap().remove(&0).unwrap_or_default()
    }

    fn files(names: &[&str]) -> Heard {
        Heard {
            files: names.iter().map(|name| (*name).to_owned()).collect(),
            everything: false,
        }
    }

    #[test]
    fn a_file_is_heard_of_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let mut watch = [Watch::new(folder.path().to_owned())];
        let mut file = fs::File::create(at("a.yaml")).unwrap();
        file.write_all(b"half").unwrap();
        assert_eq!(next(&mut watch), Heard::default());
        assert!(watch[0].is_being_written("a.yaml"));
        drop(file);
        assert_eq!(next(&mut watch), files(&["a.yaml"]));
        assert!(!watch[0].is_being_written("a.yaml"));
        fs::rename(at("a.yaml"), at("b.yaml")).unwrap();
        assert_eq!(next(&mut watch), files(&["a.yaml", "b.yaml"]));
        std::os::unix::fs::symlink("b.yaml", at("c.yaml")).unwrap();
        assert_eq!(next(&mut watch), files(&["c.yaml"]));
        fs::remove_file(at("b.yaml")).unwrap();
        assert_eq!(next(&mut watch), files(&["b.yaml"]));
    }

    #[test]
    fn a_folder_may_come_and_go() {
        let above = tempfile::tempdir().unwrap();
        let folder = above.path().join("deep/results");
        let mut watch = [Watch::new(folder.clone())];
        fs::create_dir_all(&folder).unwrap();
        assert!(next(&mut watch).everything);
        fs::write(folder.join("a"), "").unwrap();
        assert_eq!(next(&mut watch), files(&["a"]));
        fs::remove_dir_all(&folder).unwrap();
        assert!(next(&mut watch).everything);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("b"), "").unwrap();
        assert!(next(&mut watch).everything);
        fs::write(folder.join("c"), "").unwrap();
        assert_eq!(next(&mut watch), files(&["c"]));
        // Another in its place.
        let other = above.path().join("other");
        fs::create_dir(&other).unwrap();
        fs::rename(&folder, above.path().join("old")).unwrap();
        fs::rename(&other, &folder).unwrap();
        assert!(next(&mut watch).everything);
        fs::write(folder.join("d"), "").unwrap();
        assert_eq!(next(&mut watch), files(&["d"]));
    }

    #[test]
    fn renamed_file_is_heard_of_and_the_writing_is_not() {
        let above = tempfile::tempdir().unwrap();
        let folder = above.path().join("records");
        let mut watch = [Watch::of_renamed(folder.clone())];
        fs::create_dir(&folder).unwrap();
        assert!(next(&mut watch).everything);
        let put = |name: &str| {
            fs::write(folder.join("draft"), "whole").unwrap();
            fs::rename(folder.join("draft"), folder.join(name)).unwrap();
        };
        fs::write(folder.join("draft"), "half").unwrap();
        assert_eq!(next(&mut watch), Heard::default());
        put("a");
        assert_eq!(next(&mut watch), files(&["a", "draft"]));
        fs::remove_file(folder.join("a")).unwrap();
        assert_eq!(next(&mut watch), files(&["a"]));
    }
}
