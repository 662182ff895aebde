//! Output that nobody takes: the pipe is closed, or the disk is full.

use std::fs::File;
use std::io::{PipeReader, PipeWriter, pipe};
use std::process::{Command, Output, Stdio};

use crate::node;

const STORY: &str = "../../examples/networkqos-story1-marks";

/// Commands that print, with their exit codes, on a node without an agent.
const COMMANDS: &[(&[&str], i32)] = &[
    (&["--help"], 0),
    (&["version"], 0),
    (&["completion", "bash"], 0),
    (&["man"], 0),
    (&["validate", "-f", STORY], 0),
    (&["analyze", "-f", STORY, "-o", "json"], 0),
    (&["plan", "--node", "node1", "--manifests", STORY], 0),
    (
        &[
            "plan",
            "--node",
            "node1",
            "--manifests",
            STORY,
            "-o",
            "json",
        ],
        0,
    ),
    (&["check"], 0),
    (&["check", "-o", "json"], 0),
    (&["lab", "list", "-o", "json"], 0),
    (
        &[
            "explain",
            "--manifests",
            STORY,
            "--from",
            "games/paid",
            "--to",
            "203.0.113.10",
        ],
        0,
    ),
    (&["install-plugin", "--remove", "--to", "/run"], 0),
    (&["cleanup", "--yes"], 0),
    (&["install-plugin", "--to", "/nowhere"], 1),
    (&["describe", "pod", "a", "--kubeconfig", "/nowhere"], 3),
    (
        &[
            "explain",
            "--from",
            "games/paid",
            "--to",
            "203.0.113.10",
            "--kubeconfig",
            "/nowhere",
        ],
        3,
    ),
    (&["validate", "-f", "/nowhere"], 2),
    (&["status"], 3),
];

fn run(arguments: &[&str], output: Stdio, errors: Stdio) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_netqos"));
    let child = command.args(arguments).stdout(output).stderr(errors);
    child.spawn().unwrap().wait_with_output().unwrap()
}

fn full() -> Stdio {
    File::options()
        .write(true)
        .open("/dev/full")
        .unwrap()
        .into()
}

/// One that is closed at the other end.
pub(crate) fn closed() -> Stdio {
    let (reader, writer): (PipeReader, PipeWriter) = pipe().unwrap();
    drop(reader);
    writer.into()
}

#[test]
fn whoever_closes_the_pipe_has_read_enough() {
    let Some(_node) = node() else { return };
    for (arguments, code) in COMMANDS {
        let output = run(arguments, closed(), Stdio::piped());
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(*code), "{arguments:?}: {errors}");
        assert!(!errors.contains("Broken pipe"), "{arguments:?}: {errors}");
        // Nor does it matter who hears of errors.
        let output = run(arguments, closed(), closed());
        assert_eq!(output.status.code(), Some(*code), "{arguments:?}");
    }
}

#[test]
fn what_a_full_disk_loses_is_an_error() {
    let Some(_node) = node() else { return };
    for (arguments, code) in COMMANDS {
        let output = run(arguments, full(), Stdio::piped());
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(!errors.contains("panicked"), "{arguments:?}: {errors}");
        // (What helps is printed by clap, which tells nobody.)
        if *code == 0 && *arguments != ["--help"] {
            assert_eq!(output.status.code(), Some(1), "{arguments:?}: {errors}");
            assert!(
                errors.contains("No space left on device"),
                "{arguments:?}: {errors}"
            );
        }
        let output = run(arguments, full(), full());
        assert!(output.status.code().is_some(), "{arguments:?}: {output:?}");
    }
}

#[test]
fn agent_without_stderr_ends_with_wrong_usage() {
    let agent = netqos_testkit::executable("netqos-agent", "netqos-agent").unwrap();
    for errors in [closed(), full()] {
        let mut command = Command::new(&agent);
        command.args([
            "--node",
            "node1",
            "--manifests",
            "/nowhere",
            "--log-level",
            "netqos=loud",
        ]);
        let status = command.stderr(errors).status().unwrap();
        assert_eq!(status.code(), Some(2));
    }
}
