//! Compiles `bpf/*.bpf.c` with clang.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let source = PathBuf::from("bpf/rank.bpf.c");
    println!("cargo:rerun-if-changed=bpf");
    println!("cargo:rerun-if-env-changed=CLANG");
    let clang = env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    let object = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join("rank.o");
    let status = Command::new(&clang)
        .args([
            "-O2", "-g", "-Wall", "-Werror", "-target", "bpf", "-mcpu=v3",
        ])
        .args(system_headers())
        .arg("-c")
        .arg(&source)
        .arg("-o")
        .arg(&object)
        .status();
    match status {
        Ok(status) if status.success() => digest(&object),
        Ok(_) => fail("clang did not compile bpf/rank.bpf.c; its messages are above"),
        Err(why) => fail(&format!(
            "cannot run {clang:?}: {why}; install clang and libbpf-dev (scripts/install-dependencies does), or name it in CLANG"
        )),
    }
}

/// Names this build of the programs, so that another's are told apart where they are pinned.
fn digest(object: &Path) {
    let bytes = match fs::read(object) {
        Ok(bytes) => bytes,
        Err(why) => fail(&format!("cannot read {}: {why}", object.display())),
    };
    // FNV-1a.
    let digest = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    println!("cargo:rustc-env=NETQOS_PROGRAMS={digest:016x}");
}

/// Where Debian keeps `asm/types.h`, which clang does not look for when its target is bpf.
fn system_headers() -> Vec<String> {
    let machine = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let multiarch = format!("/usr/include/{machine}-linux-gnu");
    if PathBuf::from(&multiarch).is_dir() {
        vec![format!("-I{multiarch}")]
    } else {
        Vec::new()
    }
}

fn fail(why: &str) -> ! {
    println!("cargo::error={why}");
    std::process::exit(1);
}
