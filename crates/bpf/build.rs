//! Compiles the programs, and names this build of them.

use std::fs;

mod clang;

fn main() {
    println!("cargo:rerun-if-changed=clang.rs");
    compile("bpf/rank.bpf.c", "rank.o", "NETQOS_PROGRAMS");
    if std::env::var_os("CARGO_FEATURE_RULES").is_some() {
        compile("bpf/rules.bpf.c", "rules.o", "NETQOS_RULES");
    }
    if std::env::var_os("CARGO_FEATURE_CLASSES").is_some() {
        compile("bpf/classes.bpf.c", "classes.o", "NETQOS_CLASSES");
    }
}

/// Compiles a file, and puts a digest of the object into this variable: it tells another build's
/// programs apart where they are pinned.
fn compile(source: &str, object: &str, digest: &str) {
    let object = clang::compile(source, object);
    let bytes = match fs::read(&object) {
        Ok(bytes) => bytes,
        Err(why) => clang::fail(&format!("cannot read {}: {why}", object.display())),
    };
    // FNV-1a.
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    println!("cargo:rustc-env={digest}={hash:016x}");
}
