//! Whether what is pinned outlives the agent's container.
//!
//! Where the node has no BPF file system, one is mounted where it should be. In a container that is
//! a mount of the container's own, which goes with it, and so do the pins; and who pins on the node
//! itself, as the CNI plugin does, pins in another.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use rustix::fs::{major, minor, statfs};

/// `BPF_FS_MAGIC` (`include/uapi/linux/magic.h`).
const BPF_FS_MAGIC: u64 = 0xcafe_4a11;

/// Where pins are.
#[derive(Debug)]
pub(super) struct Bpffs {
    path: PathBuf,
    /// Where the host's processes are to be seen.
    proc: PathBuf,
    /// True where it was there before this process: then it is somebody's who keeps it.
    was_there: bool,
}

impl Bpffs {
    /// To be asked before anything is pinned.
    pub(super) fn before(path: PathBuf, proc: PathBuf) -> Self {
        let mut bpffs = Self {
            path,
            proc,
            was_there: false,
        };
        bpffs.was_there = bpffs.device().is_some();
        bpffs
    }

    /// What is wrong, and what to do, once something is pinned.
    pub(super) fn problem(&self) -> Option<String> {
        let device = self.device().filter(|_| !self.was_there)?;
        // Of whoever began first; without it nothing can be said.
        let mounts = fs::read_to_string(self.proc.join("1/mountinfo")).ok()?;
        let path = self.path.display();
        (!is_mounted_there(&mounts, &device)).then(|| {
            format!(
                "the node has no BPF file system at {path}: the agent has mounted one that nobody \
                 but its own container sees. Rules and limits that it has put in force are lost, or \
                 made anew, when the container goes, and the CNI plugin does not see them. Mount one \
                 on the node (mount -t bpf bpf {path}, at each start of it), then start the agent \
                 again"
            )
        })
    }

    /// `major:minor` of the BPF file system that is there, if one is.
    fn device(&self) -> Option<String> {
        let found = statfs(&self.path).ok()?;
        let device = fs::metadata(&self.path).ok()?.dev();
        let is_bpf = found.f_type as u64 == BPF_FS_MAGIC;
        is_bpf.then(|| format!("{}:{}", major(device), minor(device)))
    }
}

/// True when a file system of this device is among these mounts, wherever it is mounted: each line has
/// its device in the third field (proc_pid_mountinfo(5)).
fn is_mounted_there(mounts: &str, device: &str) -> bool {
    let mut devices = mounts.lines().filter_map(|line| line.split(' ').nth(2));
    devices.any(|it| it == device)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_known_by_its_device_wherever_it_is() {
        let mounts = "22 28 0:21 / /sys rw,nosuid - sysfs sysfs rw\n\
                      35 22 0:31 / /sys/fs/bpf rw,nosuid shared:9 - bpf bpf rw,mode=700\n";
        assert!(is_mounted_there(mounts, "0:31"));
        assert!(!is_mounted_there(mounts, "0:3"));
        assert!(!is_mounted_there(mounts, "22"));
    }
}
