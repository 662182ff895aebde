//! Two nodes of one folder, each with the class backend of its label; and what a measurement changes is
//! in force while it runs, and as it was afterwards.
// Clippy knows a test by its attribute, and not the functions that tests share.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::num::NonZeroU32;
use std::process::Command;

use netqos_lab::report::{FlowReport, Kept, Verdict};
use netqos_lab::{Options, Progress, Which};
use netqos_testkit::{Node, lab_agent};
use serde_json::{Value, json};

const NETWORK: &str = r#"{"cniVersion": "1.0.0", "name": "pods", "plugins": [
    {"type": "bridge", "bridge": "pods0", "isGateway": true, "ipam": {
        "type": "host-local", "ranges": [[{"subnet": "10.85.0.0/24"}]],
        "routes": [{"dst": "0.0.0.0/0"}]}}]}"#;

const OBJECTS: &str = r#"
{apiVersion: v1, kind: Node, metadata: {name: newer, labels: {netqos.io/class-backend: kernel}}}
---
{apiVersion: v1, kind: Node, metadata: {name: older, labels: {netqos.io/class-backend: tc}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: slo-controller-config, namespace: koordinator-system}
data:
  system-config: '{"clusterStrategy": {"totalNetworkBandwidth": "50M"}}'
  resource-qos-config: |
    {"clusterStrategy": {
      "lsClass": {"networkQOS": {"enable": true, "egressRequest": 20}},
      "beClass": {"networkQOS": {"enable": true, "egressRequest": 40}}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: online-newer, labels: {koordinator.sh/qosClass: LS}},
 spec: {nodeName: newer}}
---
{apiVersion: v1, kind: Pod, metadata: {name: offline-newer, labels: {koordinator.sh/qosClass: BE}},
 spec: {nodeName: newer}}
---
{apiVersion: v1, kind: Pod, metadata: {name: online-older, labels: {koordinator.sh/qosClass: LS}},
 spec: {nodeName: older}}
---
{apiVersion: v1, kind: Pod, metadata: {name: offline-older, labels: {koordinator.sh/qosClass: BE}},
 spec: {nodeName: older}}
"#;

const SCENARIO: &str = r#"
apiVersion: lab.netqos.io/v1alpha1
kind: Scenario
metadata: {name: two-nodes}
spec:
  outside: [{name: internet, addresses: [203.0.113.10]}]
  measurements:
  - {name: newer, kind: tcp, from: online-newer, to: internet, streams: 2, duration: 2s,
     underLoad: {from: offline-newer, to: internet, streams: 4}, expect: {rate: 30M, tolerance: 10}}
  - {name: older, kind: tcp, from: online-older, to: internet, streams: 2, duration: 2s,
     underLoad: {from: offline-older, to: internet, streams: 4}, expect: {rate: 30M, tolerance: 10}}
  - name: limited
    kind: tcp
    from: offline-newer
    to: internet
    omit: 2s
    duration: 2s
    changes:
    - at: 1s
      title: limit
      patch: {kind: Pod, metadata: {name: offline-newer,
        annotations: {koordinator.sh/networkQOS: '{"egressLimit": "5M"}'}}}
    expect: {rate: 5M, tolerance: 10}
  - {name: free, kind: tcp, from: offline-newer, to: internet, duration: 2s, expect: {rate: 50M, tolerance: 10}}
"#;

/// What a program says in the namespace of a node.
fn on(kept: &Kept, node: &str, program: &[&str]) -> String {
    let who = format!("node ({node})");
    let mut namespaces = kept.namespaces.iter();
    let (_, netns) = namespaces.find(|(name, _)| *name == who).unwrap();
    let output = Command::new("ip")
        .args(["netns", "exec", netns])
        .args(program)
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Mbit/s in the intervals that end between these times of a flow, in milliseconds.
fn rate(flow: &FlowReport, from: u128, to: u128) -> f64 {
    let within = |at: u128| from < at && at <= to;
    let samples = flow.samples.iter().filter(|it| within(it.at.as_millis()));
    let (mut bytes, mut seconds) = (0, 0.0);
    for sample in samples {
        bytes += sample.received.bytes();
        seconds += sample.elapsed.as_secs_f64();
    }
    bytes as f64 * 8.0 / 1e6 / seconds
}

#[test]
fn and_what_is_changed_is_in_force_meanwhile() {
    let Some(agent) = lab_agent(netqos_lab::AGENT) else {
        return;
    };
    let Some(_node) = Node::new().unwrap() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("net.conflist", NETWORK),
        ("objects.yaml", OBJECTS),
        ("scenario.yaml", SCENARIO),
    ] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let options = Options {
        keep: true,
        attempts: NonZeroU32::new(3).unwrap(),
        progress: Progress::on_stderr(),
        agent: Some(agent),
    };
    let report = netqos_lab::run(folder.path(), &options);
    let report = report.unwrap_or_else(|why| panic!("{why}"));
    let _down = Down;
    let table = report.to_table();
    assert!(report.holds(), "{table}");
    let verdicts = report.measurements.iter().map(|it| it.verdict);
    assert!(verdicts.clone().all(|it| it == Verdict::Held), "{table}");

    // Who divides, as it is told, and as it is.
    let backends = report.lines.iter();
    let backends: Vec<_> = backends
        .map(|it| (it.node.as_str(), it.backend.as_str()))
        .collect();
    assert_eq!(backends, [("newer", "kernel"), ("older", "tc")]);
    let class = report.pods.iter().map(|it| it.class.as_deref());
    let (online, offline) = (Some("latency-sensitive"), Some("best-effort"));
    assert!(
        class.eq([online, offline, online, offline]),
        "{:?}",
        report.pods
    );
    let kept = report.kept.as_ref().unwrap();
    for (node, qdisc, others, has_sets) in [
        ("newer", "qdisc htb 6e71: ", "qdisc htb 1: ", false),
        ("older", "qdisc htb 1: ", "qdisc htb 6e71: ", true),
    ] {
        let qdiscs = on(kept, node, &["tc", "qdisc", "show"]);
        assert!(qdiscs.contains(qdisc), "{node}: {qdiscs}");
        assert!(!qdiscs.contains(others), "{node}: {qdiscs}");
        let sets = on(kept, node, &["ipset", "list", "-n"]);
        assert_eq!(sets.contains("ls_class"), has_sets, "{node}: {sets}");
    }

    // The other one is there before, and both are on one axis.
    let [online, offline] = &report.measurements[0].flows[..] else {
        panic!("{:?}", report.measurements[0].flows)
    };
    assert!(!online.is_load && offline.is_load);
    let joined = online.began.saturating_sub(offline.began).as_millis();
    assert!((800..1500).contains(&joined), "{joined} ms");
    let alone = rate(offline, 300, 900);
    assert!(alone > 40.0, "{alone} Mbit/s of 50 before the other joins");
    let beside = report.measurements[0].load.as_ref().unwrap().goodput;
    let beside = beside.unwrap().bits_per_second() as f64 / 1e6;
    assert!((16.0..23.0).contains(&beside), "{beside} Mbit/s beside it");

    // A change has its moment, and is gone with its measurement.
    let limited = &report.measurements[2];
    let [change] = &limited.changes[..] else {
        panic!("{:?}", limited.changes)
    };
    assert!((1000..1200).contains(&change.at.as_millis()), "{change:?}");
    let before = rate(&limited.flows[0], 300, 900);
    assert!(before > 40.0, "{before} Mbit/s before the limit");
    let object = kept.agents[0]
        .objects
        .join("pod_default_offline-newer.json");
    let object: Value = serde_json::from_str(&fs::read_to_string(object).unwrap()).unwrap();
    assert_eq!(object["metadata"]["annotations"], Value::Null);
    let labels = json!({"koordinator.sh/qosClass": "BE"});
    assert_eq!(object["metadata"]["labels"], labels);

    // The page shows all of it.
    let page = report.to_html();
    for part in [
        "online-newer begins",
        ">limit</text>",
        "guaranteed: ",
        "divided by",
    ] {
        assert!(page.contains(part), "{part}");
    }
}

/// Takes the lab away, also where the test fails.
struct Down;

impl Drop for Down {
    fn drop(&mut self) {
        if let Err(why) = netqos_lab::down(&Which::All) {
            eprintln!("{why}");
        }
    }
}
