//! `netqos lab`: how it ends, and what it leaves when it is ended.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use netqos_testkit::Node;
use rustix::process::{Pid, Signal, kill_process};

use crate::lost_output::closed;
use crate::{assert_code, netqos, run, stderr, stdout};

const NETWORK: &str = r#"{"cniVersion": "1.0.0", "name": "pods", "plugins": [
    {"type": "bridge", "bridge": "pods0", "isGateway": true, "ipam": {
        "type": "host-local", "ranges": [[{"subnet": "10.85.0.0/24"}]]}}]}"#;

const POD: &str = "{kind: Pod, metadata: {name: one}, spec: {containers: [
    {name: main, command: [sleep, infinity]}]}}";

fn scenario(duration: &str, least: &str) -> String {
    format!(
        "{{apiVersion: lab.netqos.io/v1alpha1, kind: Scenario, metadata: {{name: s}}, spec: \
         {{measurements: [{{name: m, kind: tcp, from: node, to: one, omit: 0s, \
         duration: {duration}, expect: {{atLeast: {least}}}}}]}}}}"
    )
}

/// A node of the test's own, and a folder for a lab; `None` where the test can't be run.
pub(crate) fn start(scenario: &str) -> Option<(Node, tempfile::TempDir)> {
    if !Path::new("/usr/lib/cni/bridge").is_file() {
        eprintln!("skipped: /usr/lib/cni/bridge is missing (containernetworking-plugins)");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("net.conflist", NETWORK),
        ("pod.yaml", POD),
        ("scenario.yaml", scenario),
    ] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    Some((Node::new().unwrap()?, folder))
}

/// What is left of labs on this node.
pub(crate) fn left(node: &Node) -> String {
    let mounts = fs::read_to_string("/proc/thread-self/mounts").unwrap();
    let mounts: Vec<_> = mounts
        .lines()
        .filter(|line| line.contains("nqlab") || line.contains("/run/netqos"))
        .collect();
    format!("{}{}", node.files("/run").join("\n"), mounts.join("\n"))
}

/// A lab in the middle of its measurement.
fn measuring(folder: &Path) -> Child {
    let child = netqos()
        .args(["lab", "run"])
        .arg(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let start = Instant::now();
    let is_up = || fs::read_dir("/run/netns").is_ok_and(|names| names.count() == 2);
    while !is_up() {
        assert!(start.elapsed() < Duration::from_secs(20), "no pod came up");
        thread::sleep(Duration::from_millis(20));
    }
    thread::sleep(Duration::from_millis(500));
    child
}

#[test]
fn what_does_not_hold_is_measured_as_often_as_was_asked_and_what_holds_once() {
    const TWO: &str = "{apiVersion: lab.netqos.io/v1alpha1, kind: Scenario, metadata: {name: s}, \
        spec: {measurements: [\
        {name: never, kind: dscp, from: node, to: one, omit: 0s, duration: 100ms, expect: {dscp: 9}}, \
        {name: ever, kind: dscp, from: node, to: one, omit: 0s, duration: 100ms, expect: {dscp: 0}}]}}";
    let Some((_node, folder)) = start(TWO) else {
        return;
    };
    let path = folder.path().to_str().unwrap();
    let reports = tempfile::tempdir().unwrap();
    let html = reports.path().join("r.html");
    for (attempts, made) in [(&[][..], 1), (&["--attempts", "3"], 3)] {
        let arguments = ["lab", "run", path, "-o", "json", "--report-html"];
        let output = run(&[&arguments[..], &[html.to_str().unwrap()], attempts].concat());
        assert_code(&output, 1);
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let [never, ever] = &report["measurements"].as_array().unwrap()[..] else {
            panic!("{report}")
        };
        assert_eq!(
            (&never["attempts"], &ever["attempts"]),
            (&made.into(), &1.into())
        );
        assert_eq!(
            (&never["verdict"], &ever["verdict"]),
            (&"failed".into(), &"held".into())
        );
        assert!(ever.get("failedAttempts").is_none(), "{ever}");
        let failed = never["failedAttempts"]
            .as_array()
            .map_or(&[][..], |all| all);
        assert_eq!(failed.len(), made - 1, "{never}");
        for attempt in failed {
            assert!(
                attempt["result"]["udp"]["received"].as_u64() > Some(0),
                "{attempt}"
            );
            let why = attempt["failures"][0].as_str().unwrap();
            assert!(why.starts_with("DSCP 9 was expected"), "{why}");
        }
        let said = stderr(&output);
        assert_eq!(said.matches("; once more").count(), made - 1, "{said}");
        assert_eq!(said.contains("(attempt 3)"), made == 3, "{said}");
        let page = fs::read_to_string(&html).unwrap();
        let told = "attempt 2 of 3 did not hold: DSCP 9";
        assert_eq!(page.contains(told), made == 3, "{page}");
    }
    let output = run(&["lab", "run", path, "-q", "--attempts", "2"]);
    let (table, told) = (
        stdout(&output),
        "never: attempt 1 of 2 did not hold: DSCP 9",
    );
    assert!(
        table.contains(told) && table.contains("✗ never: "),
        "{table}"
    );
    assert_eq!(
        run(&["lab", "run", path, "--attempts", "0"]).status.code(),
        Some(2)
    );
}

#[test]
fn a_run_ends_with_what_came_of_its_expectations() {
    let Some((node, folder)) = start(&scenario("200ms", "1M")) else {
        return;
    };
    let path = folder.path().to_str().unwrap();
    let reports = tempfile::tempdir().unwrap();
    let (json, html) = (reports.path().join("r.json"), reports.path().join("r.html"));
    let arguments = ["lab", "run", path, "-o", "json"];
    let files = [
        "--report-json",
        json.to_str().unwrap(),
        "--report-html",
        html.to_str().unwrap(),
    ];
    let output = run(&[&arguments[..], &files].concat());
    assert_code(&output, 0);
    let printed: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let written: serde_json::Value = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
    assert_eq!(printed, written);
    assert_eq!(printed["measurements"][0]["verdict"], "held");
    assert!(
        fs::read_to_string(html)
            .unwrap()
            .starts_with("<!doctype html>")
    );
    assert_eq!(left(&node), "");

    // Also where nobody reads what it says, while it measures and afterwards.
    let mut command = netqos();
    command
        .args(["lab", "run", path])
        .stdout(closed())
        .stderr(closed());
    assert_eq!(command.status().unwrap().code(), Some(0));
    assert_eq!(left(&node), "");

    fs::write(folder.path().join("scenario.yaml"), scenario("200ms", "1P")).unwrap();
    let output = run(&["lab", "run", path]);
    assert_code(&output, 1);
    assert!(stdout(&output).contains("✗ m: "), "{}", stdout(&output));

    fs::write(
        folder.path().join("net.conflist"),
        NETWORK.replace("bridge\"", "brigde\""),
    )
    .unwrap();
    let output = run(&["lab", "run", path]);
    assert_code(&output, 3);
    let said = stderr(&output);
    assert!(
        said.contains("\"brigde\"") && said.contains("NETQOS_CNI_PATH"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
    assert_eq!(left(&node), "");
}

#[test]
fn a_run_that_is_told_to_end_takes_its_lab_away() {
    let Some((node, folder)) = start(&scenario("60s", "1M")) else {
        return;
    };
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let mut child = measuring(folder.path());
        let in_use = run(&["lab", "down"]);
        assert_code(&in_use, 3);
        assert!(stderr(&in_use).contains("Ctrl-C"), "{}", stderr(&in_use));

        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(code));
        assert_eq!(left(&node), "");
    }
}

#[test]
fn what_a_crash_leaves_can_be_taken_down() {
    let Some((node, folder)) = start(&scenario("60s", "1M")) else {
        return;
    };
    let mut child = measuring(folder.path());
    child.kill().unwrap();
    child.wait().unwrap();
    assert_ne!(left(&node), "");
    let listed = run(&["lab", "list", "-o", "json"]);
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(listed[0]["scenario"], "s");
    assert!(listed[0].get("running").is_none());

    let down = run(&["lab", "down"]);
    assert_code(&down, 0);
    assert_eq!(left(&node), "");
}
