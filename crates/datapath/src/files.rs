//! Folders of JSON documents that outlive whoever writes them.
//!
//! ```text
//!  NAME.json          a document, whole: what was written last
//!  NAME.new           one that is being written, or whose writer was killed
//!  NAME.json.corrupt  what stood there and was no such document
//! ```

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Error, Result};

/// How the file of a document ends.
pub(crate) const WHOLE: &str = ".json";
/// The ending of a file that was set aside because it was no such document.
const ASIDE: &str = ".json.corrupt";
/// How the file of one that is not written to its end ends.
pub(crate) const UNFINISHED: &str = ".new";

/// A folder of documents. The names of documents are those of files, without an ending; two
/// processes must not write under one name at a time.
#[derive(Clone, Debug)]
pub struct Documents {
    folder: PathBuf,
}

impl Documents {
    /// The documents in this folder, which need not exist yet.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The names of all documents, in no order.
    ///
    /// # Errors
    /// [`Error::Record`]: the folder is there and cannot be read.
    pub fn names(&self) -> Result<Vec<String>> {
        self.names_with(WHOLE)
    }

    /// Returns the names of files with this ending, without it.
    ///
    /// # Errors
    /// Returns [`Error::Record`] if the directory is there and cannot be read.
    pub fn names_with(&self, ending: &str) -> Result<Vec<String>> {
        let files = self.files()?.into_iter();
        Ok(files
            .filter_map(|file| Some(file.strip_suffix(ending)?.to_owned()))
            .collect())
    }

    /// The document of this name. What is no such document is set aside under its name plus
    /// `.corrupt`, which is said, and is none.
    ///
    /// # Errors
    /// [`Error::Record`]: the file is there and cannot be read.
    pub fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>> {
        let path = self.path(name, WHOLE);
        let bytes = match fs::read(&path) {
            Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(failed(&path))?,
        };
        match serde_json::from_slice(&bytes) {
            Ok(document) => Ok(Some(document)),
            Err(why) => {
                let aside = self.path(name, ASIDE);
                let _ = fs::rename(&path, &aside);
                let _ = writeln!(
                    io::stderr(),
                    "netqos: {} cannot be read ({why}); set aside as {}",
                    path.display(),
                    aside.display()
                );
                Ok(None)
            }
        }
    }

    /// The document of this name, where there is one that can be read. Another process's: it stays
    /// as it is, whatever it is.
    pub fn peek<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        let bytes = fs::read(self.path(name, WHOLE)).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// All documents, in no order; what is none is set aside as by [`read`](Self::read).
    ///
    /// # Errors
    /// [`Error::Record`]: the folder, or a file in it, cannot be read.
    pub fn all<T: DeserializeOwned>(&self) -> Result<Vec<T>> {
        let mut documents = Vec::new();
        for name in self.names()? {
            documents.extend(self.read(&name)?);
        }
        Ok(documents)
    }

    /// Writes a document. Whoever reads at any moment, or after a crash at any moment, finds it
    /// whole, or what was there before; once this has returned, it is on the disk.
    ///
    /// # Errors
    /// [`Error::Record`]: it could not be written.
    pub fn write(&self, name: &str, document: &impl Serialize) -> Result<()> {
        let path = self.path(name, WHOLE);
        let fresh = self.path(name, UNFINISHED);
        let write = || -> io::Result<()> {
            let bytes = serde_json::to_vec(document)?;
            fs::create_dir_all(&self.folder)?;
            let mut file = OpenOptions::new()
                .create(true)
                .truncate(true)
                .write(true)
                .mode(0o600)
                .open(&fresh)?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            fs::rename(&fresh, &path)?;
            File::open(&self.folder)?.sync_all()
        };
        let written = write();
        if written.is_err() {
            // It may not even be there; the first error is the one that counts.
            let _ = fs::remove_file(&fresh);
        }
        written.map_err(failed(&path))
    }

    /// Forgets a document, what a killed writer left of it, and what was set aside under its name. What is not there is
    /// forgotten.
    ///
    /// # Errors
    /// [`Error::Record`]: it could not be removed.
    pub fn remove(&self, name: &str) -> Result<()> {
        let mut removed = [WHOLE, UNFINISHED, ASIDE]
            .map(|ending| self.path(name, ending))
            .into_iter();
        removed.try_for_each(remove_file)
    }

    /// Removes what killed writers left. Only for who knows that nobody writes here now.
    ///
    /// # Errors
    /// [`Error::Record`]: the folder cannot be read, or something in it not be removed.
    pub fn remove_unfinished(&self) -> Result<()> {
        for file in self.files()? {
            if file.ends_with(UNFINISHED) {
                remove_file(self.folder.join(file))?;
            }
        }
        Ok(())
    }

    /// The names of all files, with their endings.
    pub(crate) fn files(&self) -> Result<Vec<String>> {
        let entries = match fs::read_dir(&self.folder) {
            Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(failed(&self.folder))?,
        };
        let name = |entry: fs::DirEntry| entry.file_name().into_string().ok();
        Ok(entries.flatten().filter_map(name).collect())
    }

    fn path(&self, name: &str, ending: &str) -> PathBuf {
        self.folder.join(format!("{name}{ending}"))
    }
}

/// Removes a file, unless it is gone already.
pub(crate) fn remove_file(path: PathBuf) -> Result<()> {
    match fs::remove_file(&path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(failed(&path)(source)),
        _ => Ok(()),
    }
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> Error {
    |source| Error::Record {
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that is not there yet, with its parent, which is.
    fn documents() -> (tempfile::TempDir, Documents) {
        let parent = tempfile::tempdir().unwrap();
        let documents = Documents::new(parent.path().join("a/b"));
        (parent, documents)
    }

    fn files(documents: &Documents) -> Vec<String> {
        let mut files = documents.files().unwrap();
        files.sort();
        files
    }

    #[test]
    fn what_is_written_is_read_and_then_forgotten() {
        let (_parent, documents) = documents();
        assert_eq!(documents.all::<String>().unwrap(), [""; 0]);
        // A dot in a name begins no ending.
        for text in ["old", "new"] {
            documents.write("net:c.1", &text).unwrap();
            assert_eq!(documents.read("net:c.1").unwrap(), Some(text.to_owned()));
            assert_eq!(files(&documents), ["net:c.1.json"]);
        }
        assert_eq!(documents.read::<String>("net:c").unwrap(), None);
        documents.remove("net:c.1").unwrap();
        documents.remove("net:c.1").unwrap();
        assert_eq!(files(&documents), [""; 0]);
    }

    #[test]
    fn only_its_owner_reads_a_document() {
        use std::os::unix::fs::PermissionsExt;
        let (_parent, documents) = documents();
        documents.write("a", &1).unwrap();
        let metadata = fs::metadata(documents.folder().join("a.json")).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn what_is_no_document_is_set_aside_and_stops_no_other() {
        let (_parent, documents) = documents();
        documents.write("good", &1).unwrap();
        for bad in ["", "{", "\"text\"", "1 2"] {
            fs::write(documents.folder().join("bad.json"), bad).unwrap();
            assert_eq!(documents.all::<u8>().unwrap(), [1], "{bad}");
            let aside = fs::read_to_string(documents.folder().join("bad.json.corrupt"));
            assert_eq!(aside.unwrap(), bad);
            assert_eq!(files(&documents), ["bad.json.corrupt", "good.json"]);
        }
    }

    #[test]
    fn who_is_killed_while_writing_leaves_what_was_there_and_the_next_start_removes_the_rest() {
        let (_parent, documents) = documents();
        documents.write("a", &1).unwrap();
        for (name, half) in [("a.new", ""), ("b.new", "[2")] {
            fs::write(documents.folder().join(name), half).unwrap();
        }
        assert_eq!(documents.all::<u8>().unwrap(), [1]);
        documents.remove_unfinished().unwrap();
        assert_eq!(files(&documents), ["a.json"]);
        assert_eq!(documents.all::<u8>().unwrap(), [1]);
    }

    #[test]
    fn what_cannot_be_written_leaves_what_was_there_and_nothing_else() {
        let (parent, documents) = documents();
        documents.write("a", &1).unwrap();
        // No document, since its keys are no text.
        let bad = std::collections::BTreeMap::from([(vec![1], 2)]);
        assert!(documents.write("a", &bad).is_err());
        assert_eq!(files(&documents), ["a.json"]);
        // In its way stands what cannot be replaced.
        fs::create_dir_all(documents.folder().join("b.json/full")).unwrap();
        let why = documents.write("b", &1).unwrap_err().to_string();
        assert!(why.contains("a/b/b.json: "), "{why}");
        assert_eq!(files(&documents), ["a.json", "b.json"]);
        assert_eq!(documents.read("a").unwrap(), Some(1));
        // A file in place of the folder.
        let within = Documents::new(parent.path().join("a/b/a.json"));
        assert!(within.write("c", &1).is_err());
        assert!(within.names().is_err());
    }
}
