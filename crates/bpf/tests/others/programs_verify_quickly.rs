//! A node's first rule, and its first class, wait for the verifier.

use std::fs;
use std::os::fd::AsRawFd;

use netqos_bpf::classes::Classes;
use netqos_bpf::rules::Rules;

use crate::bpffs;

/// The instructions that it may follow in one program. Each branch in a loop may double them, and kernels give up
/// at a million.
const MOST: u32 = 80_000;

#[test]
fn each_within_80_000_instructions() {
    let Some(bpffs) = bpffs::private() else {
        return;
    };
    let rules = Rules::ensure(bpffs.path()).unwrap();
    let classes = Classes::ensure(bpffs.path()).unwrap();
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
        println!("{name}: {count}");
        assert!(count < MOST, "{name}: {count}");
    }
}
