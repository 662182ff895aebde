//! Compiles C to eBPF, for the build scripts of the crates that do.
#![forbid(unsafe_code)]

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles a file to an object in the build's output folder, or ends the build with what to do.
pub fn compile(source: &str, object: &str) -> PathBuf {
    println!(
        "cargo:rerun-if-changed={}",
        Path::new(source)
            .parent()
            .unwrap_or(Path::new("."))
            .display()
    );
    println!("cargo:rerun-if-env-changed=CLANG");
    let clang = env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    let object = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join(object);
    let status = Command::new(&clang)
        .args([
            "-O2", "-g", "-Wall", "-Werror", "-target", "bpf", "-mcpu=v3",
        ])
        .args(system_headers())
        .args(["-c", source, "-o"])
        .arg(&object)
        .status();
    match status {
        Ok(status) if status.success() => object,
        Ok(_) => fail(&format!(
            "clang did not compile {source}; its messages are above"
        )),
        Err(why) => fail(&format!(
            "cannot run {}: {why}; install clang and libbpf-dev (scripts/install-dependencies \
             does), or name it in CLANG",
            clang.display()
        )),
    }
}

/// Where Debian keeps `asm/types.h`, which clang does not look for when its target is bpf.
fn system_headers() -> Option<String> {
    let machine = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let multiarch = format!("/usr/include/{machine}-linux-gnu");
    Path::new(&multiarch)
        .is_dir()
        .then(|| format!("-I{multiarch}"))
}

/// Ends the build.
pub fn fail(why: &str) -> ! {
    println!("cargo::error={why}");
    std::process::exit(1);
}
