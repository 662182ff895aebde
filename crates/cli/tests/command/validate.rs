//! `netqos validate`.

use std::fs;

use serde_json::Value;

use crate::{run, stderr, stdout};

const WRONG: &str = "
apiVersion: k8s.ovn.org/v1alpha1
kind: NetworkQoS
metadata: {name: q, namespace: games}
spec: {priority: 200, egress: [{dscp: 1, bandwidth: {burst: 2}}]}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}}
---
{apiVersion: v1, kind: Pod, metadata: {name: p, annotations: {kubernetes.io/egress-bandwidth: fast}}}
---
kind: [x
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: storage}
spec: {config: '{\"type\": '}
";

const RIGHT: &str = include_str!("../../../k8s/tests/okep-4380.yaml");

#[test]
fn wrong_objects_end_with_1_and_are_named_by_file_document_and_field() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.yaml"), WRONG).unwrap();
    fs::write(folder.path().join("b.yml"), RIGHT).unwrap();
    fs::write(folder.path().join("c.txt"), "[").unwrap();
    let name = folder.path().to_str().unwrap();
    let output = run(&["validate", "-f", name]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let printed = stdout(&output);
    let lines: Vec<&str> = printed.lines().collect();
    for (line, expected) in [
        (0, "a.yaml:1: error spec.priority: 200"),
        (
            1,
            "a.yaml:1: error spec.egress[0].bandwidth.burst: burst needs rate",
        ),
        (2, "a.yaml:2: note Deployment of apps/v1"),
        (
            3,
            "a.yaml:3: error metadata.annotations: annotation kubernetes.io/egress-bandwidth: \"fast\"",
        ),
        (4, "a.yaml:4: error "),
        (5, "a.yaml:5: error spec.config: "),
    ] {
        assert!(lines[line].contains(expected), "{printed}");
    }
    assert_eq!(lines.len(), 6, "{printed}");

    let output = run(&["validate", "-f", name, "-o", "json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&report["checked"], &report["wrong"]),
        (&9.into(), &4.into())
    );
    assert_eq!(
        report["findings"][1]["path"],
        "spec.egress[0].bandwidth.burst"
    );
    assert_eq!(report["findings"][1]["name"], "games/q");
}

#[test]
fn right_objects_end_with_0_and_what_cannot_be_read_with_2() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("right.yaml");
    fs::write(&file, RIGHT).unwrap();
    let output = run(&["validate", "-f", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    assert_eq!(stdout(&output), "");
    for arguments in [&["validate"][..], &["validate", "-f", "/nonexistent"]] {
        assert_eq!(run(arguments).status.code(), Some(2));
    }
}
