//! A folder of manifests, read.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use netqos_coexistence::AtWork;
use netqos_core::{ObjectRef, Problem, Reason};
use netqos_index::Change;
use netqos_k8s::objects_from_yaml;

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
            unreadable: None,
        })
    }

    /// Reads what has changed since it was read last: all of it, the first time.
    pub fn read(&mut self) -> Batch {
        let (changes, _) = self.read_which(Which::Changed);
        self.batch(changes)
    }

    /// The same, and whether something was put off.
    pub(super) fn read_which(&mut self, which: Which<'_>) -> (Vec<Change>, bool) {
        let names = match names(&self.path) {
            Ok(names) => names,
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
                for object in objects_from_yaml(&text) {
                    match object {
                        Ok(object) => objects.push(object),
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

fn names(folder: &Path) -> io::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        if let Some(name) = name.to_str().filter(|name| is_manifest(name)) {
            names.insert(name.to_owned());
        }
    }
    Ok(names)
}

fn invalid(object: ObjectRef, message: String) -> Problem {
    Problem {
        object,
        reason: Reason::Invalid,
        message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::SETTLED;

    /// A folder of the test's own.
    struct Place(tempfile::TempDir, Folder);

    fn policy(name: &str, dscp: u8) -> String {
        format!(
            "apiVersion: k8s.ovn.org/v1alpha1\nkind: NetworkQoS\n\
             metadata: {{name: {name}, namespace: games}}\n\
             spec: {{priority: 1, podSelector: {{}}, egress: [{{dscp: {dscp}}}]}}\n"
        )
    }

    impl Place {
        fn new(files: &[(&str, &str)]) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let read = Folder::open(folder.path()).unwrap();
            let place = Self(folder, read);
            files
                .iter()
                .for_each(|(name, text)| place.write(name, text));
            place
        }

        fn write(&self, name: &str, text: &str) {
            fs::write(self.0.path().join(".new"), text).unwrap();
            fs::rename(self.0.path().join(".new"), self.0.path().join(name)).unwrap();
        }

        fn read(&mut self) -> (Vec<String>, Vec<String>) {
            let batch = self.1.read();
            let mut changes: Vec<String> = batch.changes.iter().map(shown).collect();
            changes.sort();
            let there = self.0.path().display().to_string();
            let problems = batch.problems.iter();
            let problems = problems.map(|it| it.to_string().replace(&there, "DIR"));
            (changes, problems.collect())
        }
    }

    fn shown(change: &Change) -> String {
        match change {
            Change::Policy(policy) => {
                let dscp = policy.rules[0].dscp.unwrap().get();
                format!("{} {dscp}", policy.name)
            }
            Change::PolicyGone(name) => format!("{name} gone"),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn what_changed_is_read_and_nothing_else() {
        let mut place = Place::new(&[("a.yaml", &policy("a", 1)), ("b.yml", &policy("b", 2))]);
        for name in [".c.yaml", "c.yaml~", "#c.yaml#", "c.yaml.swp", "c.txt"] {
            place.write(name, &policy("c", 3));
        }
        assert_eq!(place.read().0, ["games/a 1", "games/b 2"]);
        assert_eq!(place.read(), (vec![], vec![]));
        place.write("b.yml", &policy("b", 4));
        assert_eq!(place.read().0, ["games/b 4"]);
        fs::rename(place.0.path().join("a.yaml"), place.0.path().join("z.yaml")).unwrap();
        assert_eq!(place.read().0, ["games/a 1", "games/a gone"]);
        fs::remove_file(place.0.path().join("b.yml")).unwrap();
        assert_eq!(place.read().0, ["games/b gone"]);
    }

    #[test]
    fn a_bad_document_is_left_out_and_the_others_stay() {
        let three = [
            policy("a", 1),
            policy("b", 64),
            "kind: [\n".into(),
            policy("c", 3),
        ];
        let mut place = Place::new(&[("all.yaml", &three.join("---\n"))]);
        let (changes, problems) = place.read();
        assert_eq!(changes, ["games/a 1", "games/c 3"]);
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].starts_with(
            "NetworkQoS games/b: Invalid: left out: DIR/all.yaml, document 2 (line 5)"
        ));
        assert!(problems[0].contains("spec.egress[0].dscp"), "{problems:?}");
        assert!(problems[1].starts_with("file DIR/all.yaml: Invalid: left out"));
        // What was good before is left out, too, when it is bad now.
        place.write("all.yaml", &[policy("a", 65), policy("c", 3)].join("---\n"));
        let (changes, problems) = place.read();
        assert_eq!(changes, ["games/a gone"]);
        assert_eq!(problems.len(), 1);
        place.write("all.yaml", &policy("c", 3));
        assert_eq!(place.read(), (vec![], vec![]));
    }

    #[test]
    fn of_two_objects_of_one_name_that_of_the_first_file_counts() {
        let mut place = Place::new(&[("b.yaml", &policy("a", 2)), ("c.yaml", &policy("a", 3))]);
        let left_out = |file: &str, other: &str| {
            format!(
                "file DIR/{file}: Invalid: NetworkQoS games/a (object 1) is left out: it is in \
                 {other} already, which comes first by name; remove one of the two"
            )
        };
        assert_eq!(
            place.read(),
            (vec!["games/a 2".into()], vec![left_out("c.yaml", "b.yaml")])
        );
        // Whenever it came.
        place.write("a.yaml", &policy("a", 1));
        assert_eq!(
            place.read(),
            (
                vec!["games/a 1".into()],
                vec![left_out("b.yaml", "a.yaml"), left_out("c.yaml", "a.yaml")]
            )
        );
        fs::remove_file(place.0.path().join("a.yaml")).unwrap();
        fs::remove_file(place.0.path().join("b.yaml")).unwrap();
        let (changes, problems) = place.read();
        assert_eq!(changes.last().unwrap(), "games/a 3");
        assert_eq!(problems, [""; 0]);
    }

    #[test]
    fn what_is_being_written_is_put_off() {
        let mut place = Place::new(&[("a.yaml", &policy("a", 1)), ("b.yaml", &policy("b", 2))]);
        std::thread::sleep(SETTLED);
        let (changes, put_off) = place.1.read_which(Which::Settled(&|name| name == "a.yaml"));
        assert_eq!((changes.len(), put_off), (1, true));
        place.write("a.yaml", &policy("a", 3));
        let (changes, put_off) = place.1.read_which(Which::Settled(&|_| false));
        assert_eq!((changes.len(), put_off), (0, true));
        std::thread::sleep(SETTLED);
        let (changes, put_off) = place.1.read_which(Which::Settled(&|_| false));
        assert_eq!((changes.len(), put_off), (1, false));
    }

    #[test]
    fn a_folder_that_goes_leaves_what_it_said() {
        let mut place = Place::new(&[("a.yaml", &policy("a", 1))]);
        place.read();
        let there = place.0.path().to_owned();
        let aside = there.with_extension("aside");
        fs::rename(&there, &aside).unwrap();
        let (changes, problems) = place.read();
        assert_eq!((changes.len(), problems.len()), (0, 1));
        assert!(problems[0].contains("stays in force"), "{problems:?}");
        fs::rename(&aside, &there).unwrap();
        assert_eq!(place.read(), (vec![], vec![]));
    }

    #[test]
    fn what_is_no_text_is_reported_and_nothing_waits_for_a_pipe() {
        let mut place = Place::new(&[("a.yaml", &policy("a", 1))]);
        fs::write(place.0.path().join("b.yaml"), [0xff, 0xfe]).unwrap();
        fs::create_dir(place.0.path().join("c.yaml")).unwrap();
        let socket = std::os::unix::net::UnixListener::bind(place.0.path().join("d.yaml"));
        let (changes, problems) = place.read();
        drop(socket);
        assert_eq!(changes, ["games/a 1"]);
        assert_eq!(problems.len(), 3, "{problems:?}");
    }

    #[test]
    fn a_folder_must_be_there_at_first() {
        let error = Folder::open("/nowhere/at/all").unwrap_err().to_string();
        assert!(error.contains("/nowhere/at/all"), "{error}");
        assert!(matches!(
            Folder::open("/etc/passwd"),
            Err(Error::NotAFolder(_))
        ));
    }
}
