//! `netqos check`: what the node can do, and what is in force on it.

use std::os::unix::process::CommandExt;

use netqos_testkit::Node;
use serde_json::Value;

use crate::netqos;

fn report() -> Value {
    let output = netqos().args(["check", "-o", "json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn says_how_limits_are_held() {
    let Some(_node) = Node::new().unwrap() else {
        return;
    };
    let report = report();
    assert_eq!(report["mode"], "ranked-by-clsact", "{report}");
    let features = report["features"].as_array().unwrap();
    assert!(
        features.iter().all(|feature| feature["works"] == true),
        "{features:?}"
    );
    assert_eq!(report["attachments"], Value::Array(Vec::new()));
}

#[test]
fn without_root_says_what_to_do() {
    let output = netqos().arg("check").uid(65_534).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("run it as root"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}
