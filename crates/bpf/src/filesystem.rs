//! The BPF file system, in which pins live.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock, statfs};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, fsconfig_create, fsmount, fsopen, mount,
};

use crate::{Error, Result};

/// `BPF_FS_MAGIC` (`include/uapi/linux/magic.h`).
const BPF_FS_MAGIC: u64 = 0xcafe_4a11;

/// True when a BPF file system is mounted at this path.
pub(crate) fn is_mounted(path: &Path) -> bool {
    statfs(path).is_ok_and(|found| found.f_type as u64 == BPF_FS_MAGIC)
}

/// Whatever was to be removed at this path is gone, though another caller may have removed it.
pub(crate) fn removed(path: &Path, result: io::Result<()>) -> Result<()> {
    match result {
        Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.map_err(Error::at(path)),
    }
}

/// What `loaded` finds in this directory of pins, after `load` where that is nothing before. One caller loads at a time:
/// of two at once, one's maps would be lost to the other. Mounts the BPF file system where none is.
pub(crate) fn ensure_loaded<T>(
    bpffs: &Path,
    directory: &Path,
    subdirectory: &str,
    loaded: impl Fn() -> Result<Option<T>>,
    load: impl FnOnce() -> Result<()>,
) -> Result<T> {
    if let Some(found) = loaded()? {
        return Ok(found);
    }
    ensure_mounted(bpffs)?;
    fs::create_dir_all(directory.join(subdirectory)).map_err(Error::at(directory))?;
    let lock = File::open(directory).map_err(Error::at(directory))?;
    let locked = flock(&lock, FlockOperation::LockExclusive);
    locked.map_err(|errno| Error::at(directory)(errno.into()))?;
    if let Some(found) = loaded()? {
        return Ok(found);
    }
    load()?;
    loaded()?.ok_or_else(|| Error::Load("loaded, but not found pinned".to_owned()))
}

/// Sees to it that a BPF file system is mounted at this path.
pub(crate) fn ensure_mounted(path: &Path) -> Result<()> {
    if is_mounted(path) {
        return Ok(());
    }
    // Two at once would put one file system over the other, and what was pinned in it out of reach.
    let failed = |source: io::Error| Error::FileSystem {
        path: path.to_owned(),
        source,
    };
    fs::create_dir_all(path).map_err(failed)?;
    let lock = File::open(path).map_err(failed)?;
    flock(&lock, FlockOperation::LockExclusive).map_err(|errno| failed(errno.into()))?;
    if is_mounted(path) {
        return Ok(());
    }
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("bpf", path, "bpf", flags, None).map_err(|errno| failed(errno.into()))
}

/// A BPF file system that is mounted nowhere, for trying what a kernel takes: when this is dropped, what was
/// pinned in it is gone.
#[derive(Debug)]
pub struct Scratch(OwnedFd);

impl Scratch {
    /// Makes one.
    ///
    /// # Errors
    /// The caller may not mount, or the kernel has no `fsopen` (Linux 5.2).
    pub fn new() -> Result<Self> {
        let made = || {
            let context = fsopen("bpf", FsOpenFlags::FSOPEN_CLOEXEC)?;
            fsconfig_create(context.as_fd())?;
            let none = MountAttrFlags::empty();
            fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, none)
        };
        made().map(Self).map_err(|errno| Error::FileSystem {
            path: PathBuf::from("(a scratch one)"),
            source: errno.into(),
        })
    }

    /// Where this process reaches it.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }
}
