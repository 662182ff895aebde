//! A folder of manifests, read.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use netqos_coexistence::AtWork;
use netqos_core::{ObjectRef, Problem, Reason};
use netqos_index::Change;
use netqos_k8s::{Object, placed_objects_from_yaml};

use super::objects::Objects;
use crate::file::{Stamp, is_young, read_text};
use crate::{Batch, Error, Result};

/// The name of this source.
const SOURCE: &str = "manifests";

/// The objects of the files of a folder whose names end in `.yaml`, `.yml` or `.json`. Not those of
/// folders in it, nor of files whose names begin with a dot.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    files: BTreeMap<String, Known>,
    objects: Objects,
    /// The names of files that are not UTF-8, as far as they can be shown.
    not_utf8: BTreeSet<String>,
    /// Why the folder itself cannot be read now.
    unreadable: Option<String>,
}

/// A file that was read.
#[derive(Debug, Default)]
struct Known {
    stamp: Option<Stamp>,
    problems: Vec<Problem>,
}

/// What of a folder is read again.
#[derive(Clone, Copy)]
pub(super) enum Which<'a> {
    /// What has changed.
    Changed,
    /// What has changed, but for what somebody may be writing to.
    #[cfg_attr(not(feature = "daemon"), expect(dead_code, reason = "for who watches"))]
    Settled(&'a dyn Fn(&str) -> bool),
}

impl Folder {
    /// The folder at this path, of which nothing was read yet.
    ///
    /// # Errors
    /// It is not there, or cannot be read, or is no folder.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        match fs::read_dir(&path) {
            Err(source) if source.kind() == io::ErrorKind::NotADirectory => {
                return Err(Error::NotAFolder(path));
            }
            Err(source) => return Err(Error::Folder { path, source }),
            Ok(_) => {}
        }
        Ok(Self {
            path,
            files: BTreeMap::new(),
            objects: Objects::default(),
            not_utf8: BTreeSet::new(),
            unreadable: None,
        })
    }

    /// Puts its objects in this catalog. Nothing was read yet.
    #[cfg(feature = "daemon")]
    pub(super) fn in_catalog(mut self, networks: crate::NetworkCatalog) -> Self {
        self.objects = Objects::in_catalog(networks);
        self
    }

    /// Reads what has changed since it was read last: all of it, the first time.
    pub fn read(&mut self) -> Batch {
        let (changes, _) = self.read_which(Which::Changed);
        self.batch(changes)
    }

    /// The same, and whether something was put off.
    pub(super) fn read_which(&mut self, which: Which<'_>) -> (Vec<Change>, bool) {
        let names = match names(&self.path) {
            Ok((names, not_utf8)) => {
                self.not_utf8 = not_utf8;
                names
            }
            Err(why) => {
                // Nothing is known of the files any more: what was read stays.
                self.unreadable = Some(why.to_string());
                return (Vec::new(), false);
            }
        };
        self.unreadable = None;
        let gone = self.files.keys().filter(|known| !names.contains(*known));
        let gone: Vec<String> = gone.cloned().collect();
        let mut changes = Vec::new();
        let mut put_off = false;
        for name in gone {
            self.files.remove(&name);
            changes.extend(self.objects.put(&name, Vec::new()));
        }
        for name in names {
            let path = self.path.join(&name);
            let stamp = Stamp::at(&path);
            if stamp.is_some() && self.files.get(&name).is_some_and(|it| it.stamp == stamp) {
                continue;
            }
            if let Which::Settled(is_being_written) = which
                && (is_being_written(&name) || is_young(&path))
            {
                put_off = true;
                continue;
            }
            changes.extend(self.read_file(&name));
        }
        (changes, put_off)
    }

    /// Reads one file, which was written to its end, or has gone.
    pub(super) fn read_file(&mut self, name: &str) -> Vec<Change> {
        if !is_manifest(name) {
            return Vec::new();
        }
        let path = self.path.join(name);
        let shown = path.display().to_string();
        let (text, stamp) = match read_text(&path) {
            Ok((text, stamp)) => (text, Some(stamp)),
            Err(why) if why.kind() == io::ErrorKind::NotFound => {
                self.files.remove(name);
                if path.is_symlink() {
                    let message = "it is left out: a link to a file that does not exist; fix or remove the link";
                    let known = self.files.entry(name.to_owned()).or_default();
                    known.problems = vec![invalid(ObjectRef::File(shown), message.to_owned())];
                }
                return self.objects.put(name, Vec::new());
            }
            Err(why) if why.kind() == io::ErrorKind::InvalidData => (Err(why.to_string()), None),
            Err(why) => {
                // The disk's fault, not the object's: what was read stays.
                let known = self.files.entry(name.to_owned()).or_default();
                known.stamp = None;
                known.problems = vec![invalid(
                    ObjectRef::File(shown),
                    format!("it cannot be read ({why}); what it said before stays in force"),
                )];
                return Vec::new();
            }
        };
        let mut objects = Vec::new();
        let mut problems = Vec::new();
        match text {
            Err(why) => problems.push(invalid(
                ObjectRef::File(shown),
                format!("{why}; it is left out"),
            )),
            Ok(text) => {
                for (place, object) in placed_objects_from_yaml(&text) {
                    match object {
                        Ok(mut object) => {
                            if let Object::Pod(_, found, _) = &mut object {
                                for problem in found {
                                    let message = &mut problem.message;
                                    message.push_str(&format!("; in {shown}, {place}"));
                                }
                            }
                            objects.push(object);
                        }
                        Err(error) => {
                            let about = error.object();
                            let about = about.unwrap_or_else(|| ObjectRef::File(shown.clone()));
                            let message = format!("left out: {shown}, {error}");
                            problems.push(invalid(about, message));
                        }
                    }
                }
            }
        }
        self.files
            .insert(name.to_owned(), Known { stamp, problems });
        self.objects.put(name, objects)
    }

    /// These changes, and how things are now.
    pub(super) fn batch(&self, changes: Vec<Change>) -> Batch {
        self.objects.complete();
        let mut problems: Vec<Problem> = Vec::new();
        if let Some(why) = &self.unreadable {
            problems.push(invalid(
                ObjectRef::File(self.path.display().to_string()),
                format!(
                    "the folder of manifests cannot be read ({why}); what it said before stays in \
                     force until it is there again"
                ),
            ));
        }
        for known in self.files.values() {
            problems.extend(known.problems.iter().cloned());
        }
        problems.extend(self.not_utf8.iter().map(|name| {
            invalid(
                ObjectRef::File(self.path.join(name).display().to_string()),
                "it is left out: its name is not UTF-8; rename the file".to_owned(),
            )
        }));
        let path = |name: &str| self.path.join(name).display().to_string();
        problems.extend(self.objects.problems(path));
        problems.sort();
        Batch {
            source: SOURCE,
            changes,
            problems,
            objects: self.objects.counts(),
            policies: BTreeMap::new(),
            at_work: AtWork::default(),
            classes: Some(self.objects.classes()),
        }
    }
}

/// True for names that manifests have, and editors give to nothing else.
fn is_manifest(name: &str) -> bool {
    let extension = Path::new(name).extension();
    let extension = extension.and_then(|extension| extension.to_str());
    !name.starts_with('.') && matches!(extension, Some("yaml" | "yml" | "json"))
}

/// The names of the manifests, and those of them that are not UTF-8, with U+FFFD in place of what is
/// not.
fn names(folder: &Path) -> io::Result<(BTreeSet<String>, BTreeSet<String>)> {
    let (mut names, mut not_utf8) = (BTreeSet::new(), BTreeSet::new());
    for entry in fs::read_dir(folder)? {
        let (name, is_utf8) = match entry?.file_name().into_string() {
            Ok(name) => (name, true),
            Err(name) => (name.to_string_lossy().into_owned(), false),
        };
        if is_manifest(&name) {
            let all = if is_utf8 { &mut names } else { &mut not_utf8 };
            all.insert(name);
        }
    }
    Ok((names, not_utf8))
}

fn invalid(object: ObjectRef, message: String) -> Problem {
    Problem {
        object,
        reason: Reason::Invalid,
        message,
    }
}

#[cfg(test)]
mod tests;
