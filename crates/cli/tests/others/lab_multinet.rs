//! Pods of a lab that select networks: the real plugin attaches them, permitted by the real agent.

use std::fs;
use std::path::Path;

use netqos_testkit::{Baseline, Node, executable};
use serde_json::Value;

use crate::lab::left;
use crate::{bandwidth, netqos, stderr};

/// Shorter than that of the example.
const SCENARIO: &str = "
apiVersion: lab.netqos.io/v1alpha1
kind: Scenario
metadata: {name: s}
spec:
  measurements:
  - {name: limited, kind: tcp, congestionControl: cubic, from: camera, to: recorder, interface: net1,
     omit: 1s, duration: 2s, expect: {heldTo: egress, tolerance: 60}}
  - {name: other, kind: tcp, from: camera, to: recorder, omit: 100ms, duration: 500ms, expect: {atLeast: 40M}}
  - {name: marked, kind: dscp, from: camera, to: recorder, interface: net2, omit: 0s, duration: 300ms,
     expect: {dscp: EF}}
  - {name: back, kind: dscp, from: recorder, to: camera, interface: net2, omit: 0s, duration: 300ms,
     expect: {dscp: 0}}
  - {name: unmarked, kind: dscp, from: camera, to: recorder, interface: net1, omit: 0s, duration: 300ms,
     expect: {dscp: 0}}
";

/// The example with that scenario; `None` where the test can't be run.
fn start() -> Option<(Node, tempfile::TempDir)> {
    for plugin in ["bridge", "macvlan", "host-local"] {
        if !Path::new("/usr/lib/cni").join(plugin).is_file() {
            eprintln!("skipped: /usr/lib/cni/{plugin} is missing (containernetworking-plugins)");
            return None;
        }
    }
    let node = Node::new().unwrap()?;
    // Beside the command is where plugins and agent are looked for.
    bandwidth();
    executable("netqos-plugins", "netqos-multinet").unwrap();
    executable("netqos-agent", "netqos-agent").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let example = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../examples/multinet-three-networks"
    );
    for file in [
        "10-pods.conflist",
        "networks.yaml",
        "networkqos.yaml",
        "pods.yaml",
    ] {
        fs::copy(Path::new(example).join(file), folder.path().join(file)).unwrap();
    }
    fs::write(folder.path().join("scenario.yaml"), SCENARIO).unwrap();
    Some((node, folder))
}

#[test]
fn pod_on_three_networks_is_limited_and_marked_where_it_is_said() {
    let Some((node, folder)) = start() else {
        return;
    };
    let baseline = Baseline::new(&node).unwrap();
    let before = [left(&node), node.files("/var/lib").join("\n")];
    let mut run = netqos();
    let run = run.args(["lab", "run", "-q", "-o", "json"]);
    let (output, parts) = baseline.beside(|| run.arg(folder.path()).output().unwrap());
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|why| panic!("{why}: {}", stderr(&output)));
    assert_eq!(output.status.code(), Some(0), "{report:#}");
    assert_eq!(report["warnings"], Value::Array(Vec::new()), "{report:#}");
    let limited = &report["measurements"][0];
    assert_eq!(limited["configured"]["rate"], 20_000_000, "{limited}");
    // By the test's own arithmetic, not by the lab's.
    let goodput = &limited["result"]["tcp"]["goodput"]["bitsPerSecond"];
    let share = goodput.as_u64().unwrap() as f64 / 19_128_137.0;
    assert!(parts.contains(&share), "{share}, not {parts:?}");
    let rules = report["rules"].as_array().unwrap().iter();
    let mut rules = rules.filter(|rule| rule["pod"] == "camera");
    let on_net2 = rules.next().unwrap();
    assert_eq!(on_net2["interface"], "net2", "{report:#}");
    assert_ne!(on_net2["markedPackets"], 0, "{report:#}");
    assert!(rules.next().is_none(), "{report:#}");
    assert_eq!([left(&node), node.files("/var/lib").join("\n")], before);
}

#[test]
fn pod_that_selects_a_network_which_no_policy_permits_is_refused_without_traces() {
    let Some((node, folder)) = start() else {
        return;
    };
    let before = [left(&node), node.files("/var/lib").join("\n")];
    let networks = folder.path().join("networks.yaml");
    let text = fs::read_to_string(&networks).unwrap();
    let text = text.replace("[bridge, macvlan, host-local]", "[bridge, host-local]");
    fs::write(&networks, text).unwrap();
    let output = netqos()
        .args(["lab", "run", "-q"])
        .arg(folder.path())
        .output()
        .unwrap();
    let why = stderr(&output);
    assert_eq!(output.status.code(), Some(3), "{why}");
    for words in ["pod camera: ", "studio/control", "macvlan"] {
        assert!(why.contains(words), "{words}: {why}");
    }
    assert_eq!([left(&node), node.files("/var/lib").join("\n")], before);
}
