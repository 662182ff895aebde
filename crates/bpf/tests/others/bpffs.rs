//! A BPF file system of a test's own.

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use tempfile::TempDir;

/// One that only the calling thread sees. `None`, with a reason, where programs cannot be loaded.
pub fn private() -> Option<TempDir> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: this test loads programs, which needs root");
        return None;
    }
    // SAFETY: a mount namespace only.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }.unwrap();
    let private = MountPropagationFlags::REC | MountPropagationFlags::PRIVATE;
    mount_change("/", private).unwrap();
    let directory = tempfile::tempdir().unwrap();
    mount("bpf", directory.path(), "bpf", MountFlags::empty(), None).unwrap();
    Some(directory)
}
