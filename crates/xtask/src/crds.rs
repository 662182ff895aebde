//! `cargo xtask crds`: the definitions of our resources, for `kubectl apply -f deploy/crds`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

/// What to do with the files.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Writes nothing; fails when a file is not what would be written.
    #[arg(long)]
    check: bool,
}

/// Writes the files, or compares them.
///
/// # Errors
/// A file cannot be written, or is not fresh.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let folder = root().join("deploy/crds");
    for definition in netqos_k8s::definitions() {
        let path = folder.join(definition.file());
        let text = definition.yaml()?;
        if !arguments.check {
            fs::write(&path, text).with_context(|| path.display().to_string())?;
            println!("{}", path.display());
        } else if fs::read_to_string(&path).unwrap_or_default() != text {
            bail!("{} is not fresh: run cargo xtask crds", path.display());
        }
    }
    Ok(())
}

/// The repository.
fn root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().nth(2).unwrap_or(package).to_owned()
}
