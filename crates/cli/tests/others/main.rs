//! The `netqos` command from outside: what it prints, how it ends, what it leaves.
// Clippy knows a test by its attribute, and not the functions that tests share.
#![allow(clippy::unwrap_used)]

mod agent;
mod analyze;
mod attachment_policies;
mod check;
mod cleanup_of_lines;
mod cluster_check;
mod cluster_check_installed;
mod cluster_status;
mod describe;
mod forget_sandbox;
mod install_multinet;
mod install_plugin;
mod installation_packet_loss;
mod kubectl;
mod lab;
mod lab_live;
mod lab_multinet;
mod lab_with_limits;
mod lost_output;
mod planned_lines;
mod pod;
mod remove_multinet;
mod shared_lines;
mod status;
mod traffic;
mod validate;
mod world;

use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::thread;
use std::time::Duration;

use netqos_testkit::Node;
use netqos_testkit::agent::{config_map, stage};

const NOBODY: u32 = 65_534;

fn netqos() -> Command {
    Command::new(env!("CARGO_BIN_EXE_netqos"))
}

/// Runs the command as a user who is not root. It is a copy: the target directory may be where only root
/// may look.
fn run_as_nobody(arguments: &[&str]) -> Output {
    if !rustix::process::geteuid().is_root() {
        return run(arguments);
    }
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
    let copy = directory.path().join("netqos");
    fs::copy(env!("CARGO_BIN_EXE_netqos"), &copy).unwrap();
    let mut command = Command::new(copy);
    command.uid(NOBODY).gid(NOBODY).args(arguments);
    loop {
        match command.output() {
            // A child of another test, not executed yet, has the copy open.
            Err(why) if why.kind() == ErrorKind::ExecutableFileBusy => {
                thread::sleep(Duration::from_millis(10));
            }
            ended => return ended.unwrap(),
        }
    }
}

fn bandwidth() -> PathBuf {
    netqos_testkit::executable("netqos-plugins", "bandwidth").unwrap()
}

fn run(arguments: &[&str]) -> Output {
    netqos().args(arguments).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What a command says that must succeed.
#[track_caller]
fn succeed(output: &Output) -> String {
    assert_code(output, 0);
    stdout(output)
}

#[track_caller]
fn assert_code(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
}

/// A node of the test's own; `None` where the test has to be skipped.
fn node() -> Option<Node> {
    Node::new().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn every_command_has_help_and_every_shell_a_completion() {
    for command in [
        "lab run",
        "lab list",
        "lab down",
        "install-plugin",
        "pod add",
        "pod del",
        "pod check",
        "traffic serve",
        "traffic tcp",
        "traffic udp",
        "traffic latency",
        "traffic dscp",
        "analyze",
        "check",
        "describe pod",
        "validate",
        "status",
        "plan",
        "explain",
        "cleanup",
        "completion",
    ] {
        let mut arguments: Vec<_> = command.split(' ').collect();
        arguments.push("--help");
        let output = run(&arguments);
        assert!(output.status.success(), "{command}");
        let help = stdout(&output);
        let (_, examples) = help.split_once("Example").unwrap_or_default();
        let has_example = examples.contains(&format!("netqos {command}"));
        assert!(has_example || command == "lab list", "{command}: {help}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let output = run(&["completion", shell]);
        assert!(output.status.success(), "{shell}");
        for word in ["lab", "cleanup", "attempts"] {
            assert!(stdout(&output).contains(word), "{shell}: {word}");
        }
    }
}

#[test]
fn usage_ends_with_2() {
    for arguments in [
        &["traffic", "udp", "127.0.0.1"][..],
        &["traffic", "udp", "127.0.0.1", "-b", "fast"],
        &["traffic", "tcp", "127.0.0.1:1", "-P", "0"],
        &["lab", "run"],
        &["lab", "down", "x", "--all"],
        &["lab", "down", "../x"],
        &["lab", "run", "/nowhere"],
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
        assert!(stdout(&output).is_empty() && !stderr(&output).is_empty());
    }
}
