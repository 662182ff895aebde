//! A lab is built through real plugins, measured, and gone: namespaces, mounts, processes, files.

use std::collections::BTreeSet;
use std::fs;
use std::num::NonZeroU32;
use std::path::Path;

use netqos_lab::report::{Outcome, Verdict};
use netqos_lab::{LabError, Options, Progress, Which};
use netqos_testkit::Node;
use tempfile::TempDir;

const NETWORK: &str = r#"{"cniVersion": "1.0.0", "name": "pods", "plugins": [
    {"type": "bridge", "bridge": "pods0", "isGateway": true, "ipam": {
        "type": "host-local", "ranges": [[{"subnet": "10.85.0.0/24"}]]}}]}"#;

const PODS: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: one}
spec:
  containers:
  - name: main
    command: [sh, -c, "echo $GREETING from $HOSTNAME; sleep infinity"]
    env: [{name: MARK, value: the-mark}, {name: GREETING, value: hello}]
  - name: runaway
    command: [setsid, sleep, infinity]
    env: [{name: MARK, value: the-mark}]
---
apiVersion: v1
kind: Pod
metadata: {name: two}
spec:
  containers:
  - name: main
    command: [sh, -c, "trap '' TERM; sleep infinity"]
    env: [{name: MARK, value: the-mark}]
"#;

const SCENARIO: &str = "
apiVersion: lab.netqos.io/v1alpha1
kind: Scenario
metadata: {name: small}
spec:
  compare: true
  measurements:
  - {name: down, kind: tcp, from: node, to: one, omit: 100ms, duration: 300ms, expect: {atLeast: 10M}}
  - {name: up, kind: tcp, from: one, to: node, omit: 0s, duration: 300ms, expect: {atLeast: 1P}}
  - {name: mark, kind: dscp, from: one, to: two, omit: 0s, duration: 300ms, dscp: EF, expect: {dscp: EF}}
  - {name: wait, kind: latency, from: two, to: one, duration: 300ms, interval: 10ms,
     underLoad: {from: node, to: one}, expect: {p50AtMost: 1s}}
";

/// What a lab must not change.
#[derive(Debug, PartialEq, Eq)]
struct Traces {
    files: Vec<String>,
    folders: BTreeSet<String>,
    mounts: Vec<String>,
    /// The containers' processes, wherever they have gone: they inherit a mark.
    processes: BTreeSet<String>,
}

impl Traces {
    fn of(node: &Node, folder: &TempDir) -> Self {
        let names = |folder: &str| {
            let entries = fs::read_dir(folder).unwrap().flatten();
            entries.map(|entry| entry.path().display().to_string())
        };
        let mounts = fs::read_to_string("/proc/thread-self/mounts").unwrap();
        let mark = mark(folder);
        let is_marked = |process: &String| {
            fs::read(Path::new(process).join("environ"))
                .is_ok_and(|environ| String::from_utf8_lossy(&environ).contains(&mark))
        };
        Self {
            files: [node.files("/run"), node.files("/var/lib")].concat(),
            folders: names("/run").chain(names("/var/lib")).collect(),
            mounts: mounts.lines().map(str::to_owned).collect(),
            processes: names("/proc").filter(is_marked).collect(),
        }
    }
}

/// What the environment of this test's containers holds, and nobody else's.
fn mark(folder: &TempDir) -> String {
    format!("MARK={}", folder.path().display())
}

/// Writes the pods, whose containers carry the mark.
fn put_pods(folder: &TempDir, pods: &str) {
    let pods = pods.replace("the-mark", &folder.path().display().to_string());
    fs::write(folder.path().join("pods.yaml"), pods).unwrap();
}

/// A node of the test's own, and a folder for a lab; `None` where the test can't be run.
fn start(pods: &str) -> Option<(Node, TempDir)> {
    for plugin in ["bridge", "host-local"] {
        if !Path::new("/usr/lib/cni").join(plugin).is_file() {
            eprintln!("skipped: /usr/lib/cni/{plugin} is missing (containernetworking-plugins)");
            return None;
        }
    }
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("net.conflist", NETWORK), ("scenario.yaml", SCENARIO)] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    put_pods(&folder, pods);
    Some((Node::new().unwrap()?, folder))
}

fn options(keep: bool) -> Options {
    Options {
        keep,
        attempts: NonZeroU32::MIN,
        progress: Progress::silent(),
        agent: None,
    }
}

#[test]
fn a_scenario_is_measured_and_taken_away() {
    let Some((node, folder)) = start(PODS) else {
        return;
    };
    let before = Traces::of(&node, &folder);
    let report = netqos_lab::run(folder.path(), &options(false)).unwrap();
    assert_eq!(Traces::of(&node, &folder), before);

    let verdict = |name: &str| {
        let found = report.measurements.iter().find(|m| m.name == name);
        found.map(|m| (m.verdict, m.failures.join("; "))).unwrap()
    };
    for name in ["down", "mark", "wait"] {
        assert_eq!(verdict(name), (Verdict::Held, String::new()), "{name}");
    }
    let (failed, why) = verdict("up");
    assert_eq!(failed, Verdict::Failed);
    assert!(why.ends_with("is less than 1000 Tbit/s"), "{why}");
    assert!(!report.holds());

    let wait = report
        .measurements
        .iter()
        .find(|m| m.name == "wait")
        .unwrap();
    assert!(wait.load.as_ref().unwrap().goodput.is_some());
    assert!(matches!(wait.result, Some(Outcome::Latency(_))));
    let comparison = report.comparison.as_ref().unwrap();
    let why = comparison.left_out_because.as_deref().unwrap();
    assert!(why.contains("no bandwidth plugin"), "{why}");

    let table = report.to_table();
    for words in [
        "down",
        "node → one",
        "unlimited",
        "✗ up: ",
        "! without netqos: ",
    ] {
        assert!(table.contains(words), "{words}: {table}");
    }
    let html = report.to_html();
    assert!(html.contains("1 of 4 failed") && html.contains("Not measured without netqos"));
    assert!(!html.contains("http"), "the page loads nothing");
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["measurements"][1]["verdict"], "failed");
    assert!(json["measurements"][0]["result"]["tcp"]["goodput"]["bitsPerSecond"].is_u64());
}

#[test]
fn a_lab_that_is_kept_stands_until_it_is_taken_down() {
    let Some((node, folder)) = start(PODS) else {
        return;
    };
    let before = Traces::of(&node, &folder);
    let report = netqos_lab::run(folder.path(), &options(true)).unwrap();
    let kept = report.kept.as_ref().unwrap();

    let names: Vec<_> = kept
        .namespaces
        .iter()
        .map(|(who, _)| who.as_str())
        .collect();
    assert_eq!(names, ["node", "one", "two"]);
    let seen = node.run("ip", &["netns", "list"]).unwrap();
    for (who, netns) in &kept.namespaces {
        assert!(seen.contains(netns), "{who}: {seen}");
    }
    // main of one, its child, runaway; main of two, its child.
    assert_eq!(Traces::of(&node, &folder).processes.len(), 5);
    let log = fs::read_to_string(kept.folder.join("node/log/one.main.log")).unwrap();
    assert_eq!(log, "hello from one\n");
    let [lab] = &netqos_lab::list().unwrap()[..] else {
        panic!("one lab stands")
    };
    assert_eq!((&lab.run, lab.pods, lab.running), (&kept.run, 2, None));

    assert_eq!(
        netqos_lab::down(&Which::TheOnly).unwrap(),
        [kept.run.as_str()]
    );
    assert_eq!(Traces::of(&node, &folder), before);
    assert!(netqos_lab::list().unwrap().is_empty());
    assert!(
        netqos_lab::down(&Which::All).unwrap().is_empty(),
        "once more"
    );
    let error = netqos_lab::down(&Which::Run(kept.run.clone())).unwrap_err();
    assert!(matches!(error, LabError::NoSuchLab(_)), "{error}");
}

#[test]
fn what_was_built_before_an_error_is_taken_away() {
    let bad = PODS.replace(
        "{name: two}",
        "{name: two, annotations: {kubernetes.io/egress-bandwidth: 10X}}",
    );
    let Some((node, folder)) = start(&bad) else {
        return;
    };
    let before = Traces::of(&node, &folder);
    let error = netqos_lab::run(folder.path(), &options(false)).unwrap_err();
    assert_eq!(Traces::of(&node, &folder), before);
    let text = error.to_string();
    for words in ["pod two: ", "kubernetes.io/egress-bandwidth", "10X"] {
        assert!(text.contains(words), "{text}");
    }
    assert_eq!(error.blame(), netqos_lab::Blame::Input);

    let unstartable = PODS.replace("[setsid, sleep, infinity]", "[/no/such/program]");
    put_pods(&folder, &unstartable);
    let error = netqos_lab::run(folder.path(), &options(false)).unwrap_err();
    assert_eq!(Traces::of(&node, &folder), before);
    assert!(
        error
            .to_string()
            .contains("pod one: container runaway: cannot start /no/such/program")
    );
}
