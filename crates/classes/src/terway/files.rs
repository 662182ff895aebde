//! Files that others watch: each is the old one or the new one, never half of it.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::{Error, Result};

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
        let mut written = Vec::new();
        for (name, text) in files {
            let path = self.path.join(name);
            // Whatever cannot be read is written anew.
            if fs::read(&path).is_ok_and(|found| found == text.as_bytes()) {
                self.forget(name)?;
                continue;
            }
            if let Err(error) = self.write(name, text) {
                for (name, _) in files {
                    let _ = self.forget(name);
                }
                return Err(error);
            }
            written.push(name);
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

    /// Takes the files away; how many were there.
    pub(super) fn empty(&self) -> Result<usize> {
        let mut removed = 0;
        let mut errors = Vec::new();
        for name in self.names {
            let result = self.forget(name).and_then(|()| gone(&self.path.join(name)));
            match result {
                Ok(was_there) => removed += usize::from(was_there),
                Err(error) => errors.push(error),
            }
        }
        match errors.is_empty() {
            true => Ok(removed),
            false => Err(Error::Several(errors)),
        }
    }

    /// Where a file is written before it takes its place. Always the same, so that what somebody who
    /// was killed has left is found.
    fn aside(&self, name: &str) -> PathBuf {
        self.path.join(format!(".netqos-{name}"))
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
