//! Compiles the programs, and names this build of them.

use std::fs;

mod clang;

fn main() {
    println!("cargo:rerun-if-changed=clang.rs");
    let object = clang::compile("bpf/rank.bpf.c", "rank.o");
    let bytes = match fs::read(&object) {
        Ok(bytes) => bytes,
        Err(why) => clang::fail(&format!("cannot read {}: {why}", object.display())),
    };
    // FNV-1a. The name tells another build's programs apart where they are pinned.
    let digest = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    println!("cargo:rustc-env=NETQOS_PROGRAMS={digest:016x}");
}
