//! A node's first rule, and its first class, wait for the verifier.
#![cfg(feature = "classes")]
#![allow(clippy::unwrap_used, missing_docs)]

use std::fs;
use std::os::fd::AsRawFd;

use netqos_bpf::classes::Classes;
use netqos_bpf::rules::Rules;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// The instructions that it may follow in one program. Each branch in a loop may double them, and kernels give up
/// at a million.
const MOST: u32 = 80_000;

#[test]
fn each_within_80_000_instructions() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: this test loads programs, which needs root");
        return;
    }
    // SAFETY: a mount namespace only.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }.unwrap();
    let private = MountPropagationFlags::REC | MountPropagationFlags::PRIVATE;
    mount_change("/", private).unwrap();
    let folder = tempfile::tempdir().unwrap();
    mount("bpf", folder.path(), "bpf", MountFlags::empty(), None).unwrap();
    let rules = Rules::ensure(folder.path()).unwrap();
    let classes = Classes::ensure(folder.path()).unwrap();
    for (name, program) in [
        ("rules", rules.program()),
        ("return", rules.return_program()),
        ("stamp", classes.stamp()),
        ("choose", classes.choose()),
        ("egress", classes.egress()),
        ("ingress", classes.ingress()),
    ] {
        let descriptor = program.unwrap().as_raw_fd();
        let info = fs::read_to_string(format!("/proc/self/fdinfo/{descriptor}")).unwrap();
        let mut lines = info.lines();
        let count = lines.find_map(|line| line.strip_prefix("verified_insns:"));
        let count: u32 = count.unwrap().trim().parse().unwrap();
        assert!(count < MOST, "{name}: {count}");
    }
}
