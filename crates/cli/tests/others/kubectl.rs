//! `kubectl netqos`: through kubectl itself.

use std::os::unix::fs::symlink;
use std::process::{Command, Output};

use netqos_kubernetes::Binaries;
use serde_json::{Value, json};

use crate::world::World;
use crate::{assert_code, stderr, stdout};

/// Executes kubectl with the plugin in a directory on its PATH.
fn kubectl(world: &World, arguments: &[&str]) -> Output {
    let directory = tempfile::tempdir().unwrap();
    let plugin = directory.path().join("kubectl-netqos");
    symlink(env!("CARGO_BIN_EXE_netqos"), plugin).unwrap();
    let path = std::env::var("PATH").unwrap();
    Command::new(Binaries::tool("kubectl").unwrap())
        .env("PATH", format!("{}:{path}", directory.path().display()))
        .env("KUBECONFIG", world.kubeconfig())
        .arg("netqos")
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn it_shows_itself_as_a_part_of_kubectl() {
    let world = World::empty();
    let help = stdout(&kubectl(&world, &["--help"]));
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
    let help = stdout(&kubectl(&world, &["analyze", "--help"]));
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
    let output = kubectl(&world, &["status", "-o", "json"]);
    assert_code(&output, 1);
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(status["policies"][0]["name"], world.name("one"));
    let output = kubectl(&world, &["check", "--pre"]);
    assert_code(&output, 0);
    let output = kubectl(&world, &["analyze", "-A"]);
    let said = format!("Info [NQOS0202] (NetworkQoS {}) ", world.name("one"));
    assert!(stdout(&output).starts_with(&said), "{output:?}");
    // What is said of usage ends it as ever.
    let output = kubectl(&world, &["analyze", "--nothing"]);
    assert_code(&output, 2);
    assert!(
        stderr(&output).contains("kubectl netqos analyze"),
        "{output:?}"
    );
}
