//! `kubectl netqos`: through kubectl itself, where there is one.

use std::os::unix::fs::symlink;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::world::World;
use crate::{stderr, stdout};

/// The plugin in a folder of its own, and kubectl that finds it there; `None`, said aloud, where there is
/// no kubectl.
fn kubectl(world: &World, arguments: &[&str]) -> Option<Output> {
    let folder = tempfile::tempdir().unwrap();
    let plugin = folder.path().join("kubectl-netqos");
    symlink(env!("CARGO_BIN_EXE_netqos"), plugin).unwrap();
    let path = std::env::var("PATH").unwrap();
    let mut command = Command::new("kubectl");
    command
        .env("PATH", format!("{}:{path}", folder.path().display()))
        .env("KUBECONFIG", world.kubeconfig())
        .arg("netqos")
        .args(arguments);
    match command.output() {
        Ok(output) => Some(output),
        Err(why) => {
            eprintln!("skipped: kubectl: {why}");
            None
        }
    }
}

#[test]
fn it_shows_itself_as_a_part_of_kubectl() {
    let world = World::empty();
    let Some(output) = kubectl(&world, &["--help"]) else {
        return;
    };
    let help = stdout(&output);
    assert!(help.contains("Usage: kubectl netqos <COMMAND>"), "{help}");
    for (command, shown) in [
        ("analyze", true),
        ("status", true),
        ("lab", false),
        ("traffic", false),
    ] {
        let is = help
            .lines()
            .any(|line| line.trim_start().starts_with(&format!("{command} ")));
        assert_eq!(is, shown, "{command}: {help}");
    }
    let cleanup = "from the machine that this is typed on";
    assert!(help.contains(cleanup), "{help}");
    assert!(!stdout(&crate::run(&["--help"])).contains(cleanup));
    let help = stdout(&kubectl(&world, &["analyze", "--help"]).unwrap());
    assert!(help.contains("Usage: kubectl netqos analyze"), "{help}");
    assert!(help.contains("\n  kubectl netqos analyze -A\n"), "{help}");
    // Under its own name it is what it was.
    let help = stdout(&crate::run(&["--help"]));
    assert!(
        help.contains("Usage: netqos <COMMAND>") && help.contains("\n  lab "),
        "{help}"
    );
}

#[test]
fn it_asks_the_cluster_without_being_told_to() {
    let world = World::new();
    world.node("node1");
    world.policy("one", "web", 5, &json!([{"dscp": 10}]));
    let Some(output) = kubectl(&world, &["status", "-o", "json"]) else {
        return;
    };
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(status["policies"][0]["name"], world.name("one"));
    let output = kubectl(&world, &["check", "--pre"]).unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let output = kubectl(&world, &["analyze", "-A"]).unwrap();
    let said = format!("Info [NQOS0202] (NetworkQoS {}) ", world.name("one"));
    assert!(stdout(&output).starts_with(&said), "{output:?}");
    // What is said of usage ends it as ever.
    let output = kubectl(&world, &["analyze", "--nothing"]).unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(
        stderr(&output).contains("kubectl netqos analyze"),
        "{output:?}"
    );
}
