//! The commit that the build script finds.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::fs;

/// The build script.
#[allow(dead_code, reason = "only Cargo calls `main`")]
mod script {
    include!("../git.rs");

    pub(super) fn of(root: &Path) -> Option<String> {
        commit(root)
    }

    pub(super) fn suffix(commit: &str) -> String {
        build(commit)
    }

    pub(super) fn run(root: &Path, arguments: &[&str]) -> String {
        git(root, arguments).unwrap()
    }

    pub(super) fn files(root: &Path) -> Vec<String> {
        watched(root)
    }
}

const COMMIT: [&str; 9] = [
    "-c",
    "user.name=n",
    "-c",
    "user.email=e",
    "commit",
    "-q",
    "--allow-empty",
    "-m",
    "m",
];

#[test]
fn commit_is_short_and_dirty_once_a_file_differs() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    assert_eq!(script::of(root), None, "no repository");
    script::run(root, &["init", "-q"]);
    assert_eq!(script::of(root), None, "no commit");
    script::run(root, &COMMIT);
    let commit = script::run(root, &["rev-parse", "HEAD"]);
    assert_eq!(script::of(root).as_deref(), Some(&commit[..12]));
    fs::create_dir(root.join("crates")).unwrap();
    fs::write(root.join("crates/a.rs"), "").unwrap();
    let dirty = format!("{}.dirty", &commit[..12]);
    assert_eq!(script::of(root), Some(dirty));
    // A directory of the repository is not its root: a copy without .git inside another repository.
    assert_eq!(script::of(&root.join("crates")), None);
}

#[test]
fn script_runs_again_after_each_commit() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    script::run(root, &["init", "-q", "-b", "main"]);
    script::run(root, &COMMIT);
    let files = script::files(root);
    for name in [".git/HEAD", ".git/refs/heads/main"] {
        assert!(files.iter().any(|file| file.ends_with(name)), "{files:?}");
    }
    assert!(files.iter().all(|file| fs::exists(file).unwrap()));
}

#[test]
fn named_commit_is_build_metadata_of_the_version() {
    assert_eq!(script::suffix("3d7f3e0"), "+3d7f3e0");
    assert_eq!(script::suffix("a b\n\"c\""), "+abc");
    assert!(netqos_version::VERSION.starts_with(netqos_version::RELEASE));
    assert!(netqos_version::VERSION.ends_with(netqos_version::commit()));
}
