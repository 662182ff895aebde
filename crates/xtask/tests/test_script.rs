//! `scripts/test` hides nothing: run on made-up test programs, with a `cargo` that only names them.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

const SCRIPT: &str = include_str!("../../../scripts/test");

/// A test program as libtest makes it: `spoilt` fails unless it runs by itself, `broken` always,
/// `skips` lacks a feature. It counts its runs.
const SUITE: &str = r#"#!/usr/bin/env bash
if [[ "$*" == *--list* ]]; then printf '%s: test\n' spoilt broken skips; exit; fi
echo "$*" >>"$0.runs"
result() { printf 'test result: %s. %d passed; %d failed; 0 ignored; 0 measured; 0 filtered out\n' "$@"; }
case "$*" in
  *"--exact spoilt") result ok 1 0; exit ;;
  *"--exact broken") printf 'failures:\n    broken\n\n'; result FAILED 0 1; exit 101 ;;
esac
if [[ $FAULT == skips ]]; then
  printf 'successes:\n\n---- skips stdout ----\nskipped: this kernel has no bonds: EOPNOTSUPP\n\n'
fi
case $FAULT in
  spoilt | broken) printf 'failures:\n    %s\n\n' "$FAULT"; result FAILED 2 1; exit 101 ;;
  crash) exit 139 ;;
esac
result ok 3 0
"#;

/// A `cargo` that builds nothing and names the program above.
const CARGO: &str = r#"#!/usr/bin/env bash
if [[ "$*" != *--no-run* ]]; then exit; fi
name=suite; if [[ "$*" == *"--test long*"* ]]; then name=long; fi
cp -p suite "$PWD/$name-0123abcd"
printf '{"reason":"compiler-artifact","manifest_path":"%s/crates/kernel/Cargo.toml","target":{"name":"%s"},"profile":{"opt_level":"1","test":true},"executable":"%s"}\n' \
  "$PWD" "$name" "$PWD/$name-0123abcd"
"#;

/// A repository of its own.
struct Repository(TempDir);

impl Repository {
    fn new(quarantine: &str, skips: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        fs::create_dir_all(at("scripts")).unwrap();
        fs::create_dir_all(at("crates/kernel")).unwrap();
        fs::write(at("scripts/quarantine"), quarantine).unwrap();
        fs::write(at("scripts/skips"), skips).unwrap();
        for (path, text) in [("scripts/test", SCRIPT), ("cargo", CARGO), ("suite", SUITE)] {
            executable(&at(path), text);
        }
        Self(root)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs the script where the program has this fault.
    fn run(&self, fault: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
        let path = std::env::var("PATH").unwrap();
        Command::new(self.path("scripts/test"))
            .args(arguments)
            .env("PATH", format!("{}:{path}", self.0.path().display()))
            .env("FAULT", fault)
            .env("KUBEBUILDER_ASSETS", self.0.path())
            .env_remove("CI")
            .env_remove("NETQOS_STRICT_SKIPS")
            .envs(environment.iter().copied())
            .output()
            .unwrap()
    }

    /// How often the program was run.
    fn runs(&self) -> usize {
        fs::read_to_string(self.path("suite-0123abcd.runs")).map_or(0, |text| text.lines().count())
    }
}

fn executable(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// The last lines of what was printed, without empty ones.
fn last_lines(output: &Output, count: usize) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    let last = lines.iter().rev().take(count).rev();
    last.map(|line| (*line).to_owned()).collect()
}

const SPOILT: &str = "kernel::suite spoilt  # measures a wait of 1 ms, 2026-11-24\n";

#[test]
fn failed_test_outside_of_the_quarantine_is_not_retried() {
    let repository = Repository::new(SPOILT, "");
    let output = repository.run("broken", &[], &[]);
    assert!(!output.status.success());
    assert_eq!(repository.runs(), 1);
    assert_eq!(
        last_lines(&output, 2),
        [
            "failed: kernel::suite broken",
            "tests: 2 passed, 1 failed, 0 skipped"
        ]
    );
}

#[test]
fn quarantined_test_is_retried_once_and_printed_last() {
    let repository = Repository::new(SPOILT, "");
    let output = repository.run("spoilt", &[], &[]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(repository.runs(), 2);
    assert_eq!(
        last_lines(&output, 2),
        [
            "retried: kernel::suite spoilt: passed: measures a wait of 1 ms, 2026-11-24",
            "tests: 3 passed, 0 failed, 0 skipped"
        ]
    );
}

#[test]
fn quarantined_test_that_fails_again_fails() {
    let quarantine = SPOILT.replace("spoilt", "broken");
    let repository = Repository::new(&quarantine, "");
    let output = repository.run("broken", &[], &[]);
    assert!(!output.status.success());
    assert_eq!(repository.runs(), 2);
    let [failed, retried, _] = &last_lines(&output, 3)[..] else {
        panic!("{output:?}")
    };
    assert!(
        retried.starts_with("retried: kernel::suite broken: failed: "),
        "{retried}"
    );
    assert_eq!(failed, "failed: kernel::suite broken");
}

#[test]
fn program_that_ends_without_a_result_fails() {
    let repository = Repository::new(SPOILT, "");
    let output = repository.run("crash", &[], &[]);
    assert!(!output.status.success());
    assert_eq!(last_lines(&output, 2)[0], "failed: kernel::suite");
}

#[test]
fn invalid_quarantine_fails_before_any_test() {
    let unknown = SPOILT.replace("spoilt", "gone");
    let other_program = SPOILT.replace("suite", "other");
    let undated = "kernel::suite spoilt  # measures a wait of 1 ms\n";
    for (quarantine, message) in [
        (SPOILT.repeat(11), "11 tests, at most 10"),
        (unknown, "no such test: kernel::suite gone"),
        (other_program, "no such test: kernel::other spoilt"),
        (
            undated.to_owned(),
            "want \"crate::program test  # reason, YYYY-MM-DD\"",
        ),
    ] {
        let repository = Repository::new(&quarantine, "");
        let output = repository.run("", &[], &[]);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{quarantine}");
        assert!(text.contains(message), "{text}");
        assert_eq!(repository.runs(), 0);
    }
    let ten = format!("# a comment\n\n{}", SPOILT.repeat(10));
    assert!(Repository::new(&ten, "").run("", &[], &[]).status.success());
}

#[test]
fn unlisted_skip_fails_where_skips_are_strict() {
    let skipped = "skipped: kernel::suite skips: this kernel has no bonds: EOPNOTSUPP";
    let verdict = "tests: 3 passed, 0 failed, 1 skipped";
    let repository = Repository::new("", "");
    let output = repository.run("skips", &[], &[]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(last_lines(&output, 2), [skipped, verdict]);

    let other_reason = "kernel::suite skips: needs root\n";
    let listed = "kernel::suite skips: this kernel has no bonds*  # CONFIG_BONDING\n";
    for strict in [("CI", "true"), ("NETQOS_STRICT_SKIPS", "1")] {
        for skips in ["", other_reason] {
            let output = Repository::new("", skips).run("skips", &[], &[strict]);
            assert!(!output.status.success(), "{strict:?} {skips}");
            let failed = last_lines(&output, 2)[0].clone();
            assert!(failed.contains("scripts/skips does not name"), "{failed}");
        }
        let output = Repository::new("", listed).run("skips", &[], &[strict]);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(last_lines(&output, 2), [skipped, verdict]);
    }
}

#[test]
fn long_run_checks_and_retries_only_its_own_programs() {
    let quarantine = format!(
        "kernel::gone spoilt  # only in the other run, 2026-11-24\n{}",
        SPOILT.replace("suite", "long")
    );
    let output = Repository::new(&quarantine, "").run("spoilt", &["--long"], &[]);
    assert!(output.status.success(), "{output:?}");
    assert!(last_lines(&output, 2)[0].starts_with("retried: kernel::long spoilt: passed"));
}
