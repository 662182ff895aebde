//! Executables of other crates, which cargo does not build for a crate's tests.

use std::collections::BTreeSet;
use std::env;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, ensure};

/// The executables that this process has built.
static BUILT: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// The executable of another package, in the profile of the running test.
///
/// Under `cargo test`, which builds only the package that is tested, cargo builds that of another one now. A test
/// that runs without cargo, as in `scripts/test`, finds what the workspace's build left beside it.
///
/// # Errors
/// Returns an error if cargo cannot build it, or if it is missing.
pub fn executable(package: &str, name: &str) -> Result<PathBuf> {
    if let Some(built) = env::var_os(format!("CARGO_BIN_EXE_{name}")) {
        return Ok(built.into());
    }
    // target/PROFILE/deps/TEST
    let test = env::current_exe()?;
    let directory = test.ancestors().nth(2).context("test in target/PROFILE")?;
    let path = directory.join(name);
    if let Some(cargo) = env::var_os("CARGO") {
        let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
        if !built.contains(name) {
            let profile = directory.file_name().unwrap_or_default();
            let profile = match profile.to_str() {
                Some("debug") | None => "dev",
                Some(other) => other,
            };
            let status = Command::new(cargo)
                .args(["build", "--quiet", "--locked", "--offline"])
                .args(["--package", package, "--bin", name, "--profile", profile])
                .arg("--target-dir")
                .arg(directory.parent().context("target directory")?)
                .status()?;
            ensure!(status.success(), "cannot build {package}: {status}");
            built.insert(name.to_owned());
        }
    }
    ensure!(
        path.is_file(),
        "{} is missing; run `cargo build -p {package}`",
        path.display()
    );
    Ok(path)
}
