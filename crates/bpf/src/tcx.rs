//! tcx: hooks on links that hold programs by links which outlive the process (kernel 6.6).

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use crate::{Error, Result, sys};

/// `enum bpf_attach_type`.
const BPF_TCX_INGRESS: u32 = 46;
const BPF_TCX_EGRESS: u32 = 47;
/// Put it before all others.
const BPF_F_BEFORE: u32 = 1 << 3;
/// Offsets in `struct bpf_link_info`: the program's id, and for tcx the interface.
const LINK_INFO_PROGRAM: usize = 8;
const LINK_INFO_IFINDEX: usize = 16;

/// Which way through a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcxHook {
    /// What the link receives.
    Ingress,
    /// What the link sends.
    Egress,
}

/// A program on a tcx hook, held there by a pin.
#[derive(Debug)]
pub struct TcxLink {
    fd: OwnedFd,
    path: PathBuf,
}

impl TcxHook {
    fn attach_type(self) -> u32 {
        match self {
            Self::Ingress => BPF_TCX_INGRESS,
            Self::Egress => BPF_TCX_EGRESS,
        }
    }

    /// The ids of the programs on this hook, in the order in which they run. The interface is one
    /// of the calling thread's network namespace.
    pub fn programs(self, ifindex: u32) -> Result<Vec<u32>> {
        sys::query(ifindex, self.attach_type())
    }
}

impl TcxLink {
    /// Attaches the program before all others, and pins the link at this path. The interface is
    /// one of the calling thread's network namespace.
    pub fn attach(
        program: BorrowedFd<'_>,
        ifindex: u32,
        hook: TcxHook,
        path: &Path,
    ) -> Result<Self> {
        let fd = sys::link(program, ifindex, hook.attach_type(), BPF_F_BEFORE)?;
        sys::pin(fd.as_fd(), path)?;
        Ok(Self {
            fd,
            path: path.to_owned(),
        })
    }

    /// The link that is pinned at this path, if there is one.
    pub fn open(path: &Path) -> Result<Option<Self>> {
        match sys::get(path) {
            Ok(fd) => Ok(Some(Self {
                fd,
                path: path.to_owned(),
            })),
            Err(Error::Command { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The interface that it is attached to; `None` when that interface is gone, and with it what
    /// the link did.
    pub fn ifindex(&self) -> Result<Option<u32>> {
        let info = sys::info::<24>(self.fd.as_fd())?;
        let ifindex = read_u32(&info, LINK_INFO_IFINDEX);
        Ok((ifindex != 0).then_some(ifindex))
    }

    /// The id of the program that it holds there.
    pub fn program_id(&self) -> Result<u32> {
        Ok(read_u32(
            &sys::info::<24>(self.fd.as_fd())?,
            LINK_INFO_PROGRAM,
        ))
    }

    /// Removes the pin; the program leaves the hook when the last descriptor is closed, ours
    /// included.
    pub fn detach(self) -> Result<()> {
        match fs::remove_file(&self.path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(Error::Io {
                path: self.path,
                source,
            }),
            _ => Ok(()),
        }
    }
}

fn read_u32(bytes: &[u8], offset: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[offset..offset + 4]);
    u32::from_ne_bytes(word)
}
