//! Files of the repository that are made by a chore: written, or compared.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

/// What to do with the files.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Arguments {
    /// Writes nothing; fails when a file is not what would be written.
    #[arg(long)]
    pub check: bool,
}

/// The files of one chore.
#[derive(Debug)]
pub struct Files {
    root: PathBuf,
    check: bool,
    /// What to run when a file is not fresh.
    chore: &'static str,
}

impl Files {
    /// Those that this chore makes.
    pub fn of(chore: &'static str, arguments: Arguments) -> Self {
        Self {
            root: root(),
            check: arguments.check,
            chore,
        }
    }

    /// Writes a file, or compares it. The path is from the repository.
    ///
    /// # Errors
    /// It cannot be written, or is not fresh.
    pub fn put(&self, path: &str, text: &str) -> anyhow::Result<()> {
        let file = self.root.join(path);
        if fs::read_to_string(&file).unwrap_or_default() == text {
            return Ok(());
        }
        if self.check {
            bail!("{path} is not fresh: run cargo xtask {}", self.chore);
        }
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        }
        fs::write(&file, text).with_context(|| path.to_owned())?;
        println!("{path}");
        Ok(())
    }

    /// Holds a folder to these files and no others.
    ///
    /// # Errors
    /// There is another one, and it may not or cannot be removed.
    pub fn only(&self, folder: &str, names: &BTreeSet<String>) -> anyhow::Result<()> {
        for entry in fs::read_dir(self.root.join(folder)).with_context(|| folder.to_owned())? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if names.contains(&name) {
                continue;
            }
            let path = format!("{folder}/{name}");
            if self.check {
                bail!(
                    "{path} is of nothing any more: run cargo xtask {}",
                    self.chore
                );
            }
            fs::remove_file(self.root.join(&path)).with_context(|| path.clone())?;
            println!("{path} removed");
        }
        Ok(())
    }
}

/// The text of a file of the repository.
///
/// # Errors
/// It cannot be read.
pub fn read(path: &str) -> anyhow::Result<String> {
    fs::read_to_string(root().join(path)).with_context(|| path.to_owned())
}

/// The text with what is between two marks, each a line of its own, replaced.
///
/// # Errors
/// A mark is not there.
pub fn between(text: &str, begin: &str, end: &str, inside: &str) -> anyhow::Result<String> {
    let at = text
        .find(begin)
        .with_context(|| format!("there is no {begin}"))?
        + begin.len();
    let until = text[at..]
        .find(end)
        .with_context(|| format!("there is no {end}"))?
        + at;
    Ok(format!("{}\n{inside}{}", &text[..at], &text[until..]))
}

/// The repository.
pub fn root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().nth(2).unwrap_or(package).to_owned()
}

#[cfg(test)]
mod tests {
    use super::Arguments;
    use crate::{crds, manifests, messages, metrics};

    /// With `NETQOS_WRITE_GENERATED` in its environment it makes it so. The manifests are of what the
    /// others write.
    #[test]
    fn what_is_checked_in_is_fresh() {
        let check = std::env::var_os("NETQOS_WRITE_GENERATED").is_none();
        for chore in [crds::run, metrics::run, manifests::run, messages::run] {
            chore(Arguments { check }).unwrap();
        }
    }
}
