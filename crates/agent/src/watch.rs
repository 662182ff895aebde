//! Folders, watched: which of their files were written to their end, put there, or taken away.
//!
//! A folder that is not there is waited for: the nearest one above it is watched instead.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

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
/// After the first event of a burst, how long it is waited for the next, and for all.
const QUIET: Duration = Duration::from_millis(2);
const AT_MOST: Duration = Duration::from_millis(20);

/// A watched folder.
#[derive(Debug)]
pub(crate) struct Watch {
    inotify: OwnedFd,
    folder: PathBuf,
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
    /// Watches this folder, from now on.
    pub(crate) fn new(folder: PathBuf) -> Result<Self> {
        let flags = CreateFlags::NONBLOCK | CreateFlags::CLOEXEC;
        let inotify = inotify::init(flags).map_err(|errno| Error::Watch(errno.into()))?;
        let mut watch = Self {
            inotify,
            folder,
            on: None,
            open: BTreeSet::new(),
        };
        watch.aim()?;
        Ok(watch)
    }

    /// True while somebody is writing to this file, as far as was heard.
    pub(crate) fn is_being_written(&self, name: &str) -> bool {
        self.open.contains(name)
    }

    /// Watches the folder, or what is nearest to it; true when that is another than before.
    pub(crate) fn aim(&mut self) -> Result<bool> {
        let before = self.on.as_ref().map(|(_, _, identity)| *identity);
        for _ in 0..64 {
            let nearest = self.folder.ancestors().find(|path| path.is_dir());
            let nearest = nearest.unwrap_or(Path::new("/")).to_owned();
            let Some(identity) = identity(&nearest) else {
                continue;
            };
            let aimed = self.on.as_ref();
            if aimed.is_some_and(|(_, path, now)| *path == nearest && *now == identity) {
                return Ok(before != Some(identity));
            }
            if let Some((number, ..)) = self.on.take() {
                let _ = inotify::remove_watch(&self.inotify, number);
            }
            match inotify::add_watch(&self.inotify, &nearest, HEARD) {
                Ok(number) => self.on = Some((number, nearest, identity)),
                // It went in between.
                Err(Errno::NOENT | Errno::NOTDIR) => {}
                Err(errno) => return Err(Error::Watch(errno.into())),
            }
            // Once more: what came before it was watched was not heard of.
        }
        Ok(true)
    }

    /// Takes note of all that was heard up to now.
    fn read(&mut self, heard: &mut Heard) -> Result<()> {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut lost_aim = false;
        let on_folder = self
            .on
            .as_ref()
            .is_some_and(|(_, on, _)| *on == self.folder);
        let number = self.on.as_ref().map(|(number, ..)| *number);
        let mut reader = inotify::Reader::new(self.inotify.as_fd(), &mut buffer);
        loop {
            let event = match reader.next() {
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(Error::Watch(errno.into())),
                Ok(event) => event,
            };
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
                let _ = inotify::remove_watch(&self.inotify, number);
            }
            heard.everything |= self.aim()?;
        }
        Ok(())
    }
}

/// Waits until something is heard of any of these folders, and then until it is quiet again. Empty
/// when nothing was for so long.
pub(crate) fn wait(watches: &mut [Watch], timeout: Duration) -> Result<BTreeMap<usize, Heard>> {
    let mut heard: BTreeMap<usize, Heard> = BTreeMap::new();
    let until = Instant::now() + timeout;
    let mut burst: Option<Instant> = None;
    for round in 0_u64.. {
        let left = match burst {
            Some(began) => QUIET.min(AT_MOST.saturating_sub(began.elapsed())),
            None => until.saturating_duration_since(Instant::now()),
        };
        if left.is_zero() && round > 0 {
            break;
        }
        let fds: Vec<BorrowedFd<'_>> = watches.iter().map(|watch| watch.inotify.as_fd()).collect();
        let mut polled: Vec<PollFd<'_>> = fds
            .iter()
            .map(|fd| PollFd::new(fd, PollFlags::IN))
            .collect();
        let timespec = Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        match poll(&mut polled, Some(&timespec)) {
            Ok(0) => return Ok(heard),
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(Error::Watch(io::Error::from(errno))),
        }
        let ready: Vec<bool> = polled.iter().map(|one| !one.revents().is_empty()).collect();
        drop(polled);
        for (index, watch) in watches.iter_mut().enumerate() {
            if ready.get(index) == Some(&true) {
                let mut one = heard.remove(&index).unwrap_or_default();
                watch.read(&mut one)?;
                if one != Heard::default() {
                    heard.insert(index, one);
                    burst.get_or_insert_with(Instant::now);
                }
            }
        }
    }
    Ok(heard)
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
        let mut watch = [Watch::new(folder.path().to_owned()).unwrap()];
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
        let mut watch = [Watch::new(folder.clone()).unwrap()];
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
}
