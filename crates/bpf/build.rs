//! Compiles the programs, and names this build of them.

use std::fs;

use netqos_bpf_build as clang;

fn main() {
    compile(&["rank"], "NETQOS_PROGRAMS");
    if std::env::var_os("CARGO_FEATURE_RULES").is_some() {
        compile(&["rules", "conntrack"], "NETQOS_RULES");
    }
    if std::env::var_os("CARGO_FEATURE_CLASSES").is_some() {
        compile(&["classes"], "NETQOS_CLASSES");
    }
}

/// Compiles files of these names, and puts a digest of the objects into this variable: it tells
/// another build's programs apart where they are pinned.
fn compile(names: &[&str], digest: &str) {
    let objects = names.iter().flat_map(|name| {
        let object = clang::compile(&format!("bpf/{name}.bpf.c"), &format!("{name}.o"));
        match fs::read(&object) {
            Ok(bytes) => bytes,
            Err(why) => clang::fail(&format!("cannot read {}: {why}", object.display())),
        }
    });
    // FNV-1a.
    let hash = objects.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    println!("cargo:rustc-env={digest}={hash:016x}");
}
