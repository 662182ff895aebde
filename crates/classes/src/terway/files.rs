//! Files that others watch: each is the old one or the new one, never half of it.
//!
//! koordlet writes files of the same names. So it is written down beside them what each holds by netqos,
//! and one that holds anything else is not taken away.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use netqos_core::Digest;

use crate::{Error, Result};

/// What each file holds by netqos: what it is to hold, and, until that has taken its place, what it held.
type Written = BTreeMap<String, Vec<String>>;

/// Where that is written down, and how it is called until it is whole.
const WRITTEN: &str = "written";
const UNFINISHED: &str = "written.new";

/// A folder of other people's, and the files in it that are written here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Folder<'a> {
    path: &'a Path,
    names: &'a [&'static str],
}

impl<'a> Folder<'a> {
    pub(super) const fn new(path: &'a Path, names: &'a [&'static str]) -> Self {
        Self { path, names }
    }

    /// Makes the folder where it is not there.
    pub(super) fn make(&self) -> Result<()> {
        fs::create_dir_all(self.path).map_err(|source| failed(self.path, source))
    }

    /// Takes the folder away if nothing is in it, and the one above likewise.
    pub(super) fn remove(&self) {
        // What holds something stays.
        let folders = [Some(self.path), self.path.parent()];
        let _ = folders.into_iter().flatten().try_for_each(fs::remove_dir);
    }

    /// What a file holds; `None` where it is not there.
    pub(super) fn read(&self, name: &str) -> Result<Option<String>> {
        let path = self.path.join(name);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(&path, error)),
        }
    }

    /// Makes the files hold this; how many did not. All of them are written before the first takes its
    /// place, so that a disk that is full leaves all as they were.
    pub(super) fn hold(&self, files: &[(&str, String)]) -> Result<usize> {
        let before = self.written();
        let mut known = before.clone();
        let mut written = Vec::new();
        for (name, text) in files {
            let path = self.path.join(name);
            let ours = known.entry((*name).to_owned()).or_default();
            let digest = digest(text);
            // Whatever cannot be read is written anew.
            let found = fs::read_to_string(&path).ok();
            if found.as_ref() == Some(text) {
                self.forget(name)?;
                if !ours.contains(&digest) {
                    *ours = vec![digest];
                }
                continue;
            }
            let found = found.map(|it| self::digest(&it));
            ours.retain(|one| found.as_ref() == Some(one));
            ours.push(digest);
            if let Err(error) = self.write(name, text) {
                self.forget_all(files);
                return Err(error);
            }
            written.push(name);
        }
        if known != before
            && let Err(error) = self.write_down(&known)
        {
            self.forget_all(files);
            return Err(error);
        }
        for name in &written {
            let path = self.path.join(name);
            fs::rename(self.aside(name), &path).map_err(|source| failed(&path, source))?;
        }
        if !written.is_empty() {
            // So that the names outlive a loss of power, as far as the file system has that.
            let folder = fs::File::open(self.path).and_then(|folder| folder.sync_all());
            folder.map_err(|source| failed(self.path, source))?;
        }
        Ok(written.len())
    }

    /// Takes the files away that hold what was written here; how many those were.
    pub(super) fn empty(&self) -> Result<usize> {
        let written = self.written();
        let is_ours = |name: &str| {
            let text = fs::read_to_string(self.path.join(name));
            let ours = written.get(name).zip(text.ok());
            ours.is_some_and(|(ours, text)| ours.contains(&digest(&text)))
        };
        let mut there = self
            .names
            .iter()
            .filter(|name| self.path.join(name).exists());
        if written.is_empty()
            && let Some(name) = there.next()
        {
            tracing::warn!(
                "{} stays, and what is beside it: that netqos wrote it is nowhere written down, as \
                 earlier builds did not do; remove it where no koordlet writes it",
                self.path.join(name).display()
            );
        }
        let mut removed = 0;
        let mut errors = Vec::new();
        for name in self.names {
            let mut result = self.forget(name).map(|()| false);
            if result.is_ok() && is_ours(name) {
                result = gone(&self.path.join(name));
            }
            match result {
                Ok(was_there) => removed += usize::from(was_there),
                Err(error) => errors.push(error),
            }
        }
        if errors.is_empty() {
            for name in [UNFINISHED, WRITTEN] {
                errors.extend(self.forget(name).err());
            }
        }
        match errors.is_empty() {
            true => Ok(removed),
            false => Err(Error::Several(errors)),
        }
    }

    /// What was written here; nothing, where nobody has written that down.
    fn written(&self) -> Written {
        let text = fs::read(self.aside(WRITTEN)).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    fn write_down(&self, written: &Written) -> Result<()> {
        let text = serde_json::to_string(written).map_err(|why| invalid(self.path, why))?;
        let renamed = self.write(UNFINISHED, &text).and_then(|()| {
            let path = self.aside(WRITTEN);
            fs::rename(self.aside(UNFINISHED), &path).map_err(|source| failed(&path, source))
        });
        renamed.inspect_err(|_| drop(self.forget(UNFINISHED)))
    }

    /// Where a file is written before it takes its place. Always the same, so that what somebody who
    /// was killed has left is found.
    fn aside(&self, name: &str) -> PathBuf {
        self.path.join(format!(".netqos-{name}"))
    }

    fn forget_all(&self, files: &[(&str, String)]) {
        for (name, _) in files {
            let _ = self.forget(name);
        }
    }

    fn forget(&self, name: &str) -> Result<()> {
        gone(&self.aside(name)).map(drop)
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.aside(name);
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(true).mode(0o644);
        let written = options.open(&path).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        });
        written.map_err(|source| failed(&path, source))
    }
}

fn digest(text: &str) -> String {
    Digest::of(&text).to_string()
}

/// Takes a file away; whether it was there.
fn gone(path: &Path) -> Result<bool> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(failed(path, error)),
    }
}

fn failed(path: &Path, source: io::Error) -> Error {
    Error::File {
        path: path.to_owned(),
        source,
    }
}

/// A file that does not say what it should.
pub(super) fn invalid(path: &Path, what: impl ToString) -> Error {
    failed(
        path,
        io::Error::new(io::ErrorKind::InvalidData, what.to_string()),
    )
}
