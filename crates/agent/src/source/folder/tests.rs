//! A folder of manifests, read.

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
    assert!(
        problems[0].starts_with(
            "NetworkQoS games/b: Invalid: left out: DIR/all.yaml, document 2 (line 5)"
        )
    );
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
fn file_that_is_left_out_is_a_problem_until_it_is_fixed() {
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::symlink;
    const LIST: &str = "apiVersion: v1\nkind: List\nitems: {a: b}\n";
    const KIND: &str = "apiVersion: k8s.ovn.org/v1alpha1\nkind: NetworkQOS\nmetadata: {name: a}\n";
    const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  annotations: \
         {k8s.v1.cni.cncf.io/network-status: '[{'}\n";
    let mut place = Place::new(&[("a.yaml", LIST), ("b.yaml", KIND), ("c.yaml", POD)]);
    let not_utf8 = place
        .0
        .path()
        .join(std::ffi::OsStr::from_bytes(b"d\xff.yaml"));
    fs::write(&not_utf8, policy("d", 1)).unwrap();
    symlink("nowhere", place.0.path().join("e.yaml")).unwrap();
    let problems = place.read().1;
    assert_eq!(place.read().1, problems, "they stay");
    for (file, part) in [
        (
            "a.yaml",
            "document 1 (line 1), List: items: a list of objects is expected",
        ),
        (
            "b.yaml",
            "document 1 (line 1), NetworkQOS default/a: kind: k8s.ovn.org has no kind",
        ),
        (
            "c.yaml, document 1 (line 1)",
            "metadata.annotations[k8s.v1.cni.cncf.io/network-status]: ",
        ),
        ("d\u{fffd}.yaml", "its name is not UTF-8; rename"),
        (
            "e.yaml",
            "a link to a file that does not exist; fix or remove",
        ),
    ] {
        let mut about = problems.iter().filter(|it| it.contains(file));
        assert!(about.any(|it| it.contains(part)), "{file}: {problems:#?}");
    }
    assert_eq!(problems.len(), 5, "{problems:#?}");

    fs::remove_file(not_utf8).unwrap();
    place.write("nowhere", &policy("e", 5));
    assert_eq!(place.read().0, ["games/e 5"]);
    fs::remove_file(place.0.path().join("nowhere")).unwrap();
    let (changes, problems) = place.read();
    assert_eq!(changes, ["games/e gone"]);
    assert!(
        problems.iter().all(|it| !it.contains("UTF-8")),
        "{problems:#?}"
    );
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
