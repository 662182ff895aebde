//! Network namespaces: naming one by a file, and standing in it.

use std::fs::{self, File};
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::mount::{UnmountFlags, mount_bind, unmount};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

use crate::wire::{self, Request};
use crate::{Error, Result, Socket};

/// Attributes of a namespace's number (`include/uapi/linux/net_namespace.h`).
const NETNSA_NSID: u16 = 1;
const NETNSA_FD: u16 = 3;
/// `sizeof(struct rtgenmsg)`, padded.
const RTGENMSG: usize = 4;

/// An open network namespace. As long as it is open, the namespace exists.
#[derive(Debug)]
pub struct Namespace {
    path: PathBuf,
    file: File,
}

/// While this lives, the calling thread is in another network namespace; dropped, it is back.
///
/// A namespace belongs to a thread, so this cannot be sent to another.
#[derive(Debug)]
#[must_use = "dropping this leaves the namespace at once"]
pub struct Entered {
    home: File,
    not_send: PhantomData<*const ()>,
}

impl Namespace {
    /// Opens the namespace that this file names (`/run/netns/x`, `/proc/42/ns/net`).
    ///
    /// # Errors
    /// The file cannot be opened. That it is a network namespace shows only when it is entered.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let file = File::open(path).map_err(|source| failed(path, source))?;
        Ok(Self {
            path: path.to_owned(),
            file,
        })
    }

    /// The namespace of the calling thread.
    pub fn current() -> Result<Self> {
        Self::open("/proc/thread-self/ns/net")
    }

    /// A new one, which nothing names: it is gone when this and everything opened in it is closed.
    ///
    /// # Errors
    /// The caller lacks `CAP_SYS_ADMIN`.
    pub fn scratch() -> Result<Self> {
        let made = std::thread::spawn(|| {
            // SAFETY: only the network namespace of this thread changes, which is about to end; no
            // file descriptors are unshared, so none can be used by a thread that lost it.
            unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }
                .map_err(|errno| failed(Path::new("new"), errno.into()))?;
            Self::current()
        });
        let panicked = || failed(Path::new("new"), io::Error::other("its thread panicked"));
        made.join().map_err(|_| panicked())?
    }

    /// A new one that this file names from now on, as `ip netns add` does it: it exists until the
    /// file is [unmounted](Self::remove) and nobody is in it any more.
    ///
    /// # Errors
    /// The caller lacks `CAP_SYS_ADMIN`, or the file cannot be made, or names something already.
    pub fn create(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let named = || {
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder)?;
            }
            File::create_new(path).map(drop)
        };
        named().map_err(|source| failed(path, source))?;
        let bound = Self::scratch().and_then(|scratch| {
            let inside = format!("/proc/self/fd/{}", scratch.file.as_raw_fd());
            mount_bind(inside, path).map_err(|errno| failed(path, errno.into()))?;
            Self::open(path)
        });
        if bound.is_err() {
            let _ = fs::remove_file(path);
        }
        bound
    }

    /// Takes the name away that [`create`](Self::create) gave. That it is gone already is no error.
    pub fn remove(path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        match unmount(path, UnmountFlags::DETACH) {
            Ok(()) | Err(Errno::INVAL | Errno::NOENT) => {}
            Err(errno) => return Err(failed(path, errno.into())),
        }
        match fs::remove_file(path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(failed(path, source)),
            _ => Ok(()),
        }
    }

    /// The file that it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// True when both are the same namespace, whatever files name them.
    pub fn is_same(&self, other: &Self) -> Result<bool> {
        Ok(self.identity()? == other.identity()?)
    }

    /// Moves the calling thread in.
    ///
    /// # Errors
    /// The file is not a network namespace, or the caller lacks `CAP_SYS_ADMIN`.
    pub fn enter(&self) -> Result<Entered> {
        let home = Self::current()?.file;
        move_into_link_name_space(self.file.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|errno| failed(&self.path, errno.into()))?;
        Ok(Entered {
            home,
            not_send: PhantomData,
        })
    }

    fn identity(&self) -> Result<(u64, u64)> {
        let metadata = self
            .file
            .metadata()
            .map_err(|source| failed(&self.path, source))?;
        Ok((metadata.dev(), metadata.ino()))
    }
}

impl Socket {
    /// Returns the number that this socket's namespace has for another one, as links' attribute `link-netnsid` gives it;
    /// `None` if it has none. A namespace has no number for itself.
    pub fn namespace_id(&mut self, other: &Namespace) -> Result<Option<i32>> {
        let descriptor = other.file.as_raw_fd() as u32;
        let request = Request::new(libc::RTM_GETNSID, libc::NLM_F_ACK, &[0; RTGENMSG]);
        let request = request.number(NETNSA_FD, descriptor);
        let doing = || format!("find the number of namespace {}", other.path.display());
        let id = self.fetched(&doing, request, |payload| {
            let id = wire::attribute(payload.get(RTGENMSG..)?, NETNSA_NSID)?;
            wire::u32_at(id, 0).map(|id| id as i32)
        })?;
        Ok(Some(id).filter(|id| *id >= 0))
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let back = move_into_link_name_space(self.home.as_fd(), Some(LinkNameSpaceType::Network));
        if back.is_err() {
            // Going on in the wrong namespace would change another pod's network, or the host's.
            std::process::abort();
        }
    }
}

fn failed(path: &Path, source: io::Error) -> Error {
    Error::Namespace {
        path: path.display().to_string(),
        source,
    }
}
