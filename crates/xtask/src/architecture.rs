//! Crates use each other as docs/architecture.md says.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::generated::root;

/// Those that the page calls pure.
const PURE: [&str; 6] = ["core", "api", "k8s", "index", "status", "coexistence"];
/// What does I/O.
const IMPURE: [&str; 5] = ["std::fs", "std::process", "TcpStream", "UdpSocket", "tokio"];

fn text(path: impl AsRef<Path>) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// The crates below `crates/`, in the order of the page.
fn crates() -> Vec<String> {
    let page = text("docs/architecture.md");
    let lines = page.lines().filter_map(|line| line.strip_prefix(' '));
    let names = lines.filter_map(|line| line.split(' ').next());
    let is_crate = |name: &&str| root().join(format!("crates/{name}/Cargo.toml")).is_file();
    let crates = names.filter(|name| !name.is_empty()).filter(is_crate);
    crates.map(ToOwned::to_owned).collect()
}

#[test]
fn a_crate_uses_only_crates_above_it() {
    let crates = crates();
    assert_eq!(
        crates.len(),
        fs::read_dir(root().join("crates")).unwrap().count()
    );
    for (place, name) in crates.iter().enumerate() {
        let manifest = text(format!("crates/{name}/Cargo.toml"));
        let dependencies = manifest.split("\n[dependencies]\n").nth(1);
        let lines = dependencies.unwrap_or_default().lines();
        let lines = lines.take_while(|line| !line.starts_with('['));
        for line in lines.filter_map(|line| line.strip_prefix("netqos-")) {
            let used = line.split(['.', ' ']).next().unwrap();
            let is_test_tool = root().join("testing").join(used).is_dir();
            let is_above = crates[..place].iter().any(|it| it == used);
            assert!(is_above || is_test_tool, "{name} uses {used}");
        }
    }
}

/// Asserts that no source of these crates has one of these words.
fn assert_without(words: &[&str], crates: &[&str]) {
    let folder = |name: &&str| root().join(format!("crates/{name}/src"));
    let mut paths: Vec<PathBuf> = crates.iter().map(folder).collect();
    while let Some(path) = paths.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(path).unwrap();
            paths.extend(entries.map(|entry| entry.unwrap().path()));
            continue;
        }
        let source = text(&path);
        let found = words.iter().find(|word| source.contains(**word));
        assert_eq!(found, None, "{}", path.display());
    }
}

#[test]
fn pure_crates_do_no_io() {
    assert_without(&IMPURE, &PURE);
}

/// `cluster` connects to the API server. No other part of a daemon connects to another machine.
#[test]
fn only_cluster_connects() {
    let daemons = ["agent", "controller", "daemon", "admission", "analysis"];
    assert_without(&["TcpStream::connect", "HttpConnector"], &daemons);
}

#[test]
fn nothing_sets_finalizers() {
    let writers = ["agent", "controller", "cluster", "admission"];
    assert_without(&["finalizers"], &writers);
}

#[test]
fn cni_plugins_have_no_asynchronous_runtime() {
    let tree = "tree --locked --offline --package netqos-plugins --edges normal --prefix none";
    let mut cargo = Command::new(env!("CARGO"));
    let output = cargo.args(tree.split(' ')).output().unwrap();
    let tree = str::from_utf8(&output.stdout).unwrap();
    assert!(tree.contains("netqos-cni "), "{output:?}");
    assert!(!tree.contains("tokio "), "{tree}");
}
