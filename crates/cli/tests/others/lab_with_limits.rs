//! What a lab says of real limits: configured against measured, ours beside the well-known plugin.
//!
//! How exactly limits are kept is measured by `make demo` and `datapath::long`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use netqos_testkit::Node;
use serde_json::Value;

use crate::{bandwidth, lab, netqos};

const NETWORK: &str = r#"{"cniVersion": "1.0.0", "name": "pods", "plugins": [
    {"type": "bridge", "bridge": "pods0", "isGateway": true, "ipam": {
        "type": "host-local", "ranges": [[{"subnet": "10.85.0.0/24"}]]}},
    {"type": "bandwidth", "capabilities": {"bandwidth": true}}]}"#;

const POD: &str = "{kind: Pod, metadata: {name: one, annotations: {
    kubernetes.io/ingress-bandwidth: 20M, kubernetes.io/egress-bandwidth: 10M}},
    spec: {containers: [{name: main, command: [sleep, infinity]}]}}";

const SCENARIO: &str = "
apiVersion: lab.netqos.io/v1alpha1
kind: Scenario
metadata: {name: s}
spec:
  measurements:
  - {name: down, kind: tcp, congestionControl: cubic, from: node, to: one, omit: 1s, duration: 2s,
     expect: {heldTo: ingress, tolerance: 40}}
  - {name: up, kind: tcp, congestionControl: cubic, from: one, to: node, omit: 1s, duration: 2s,
     expect: {heldTo: egress, tolerance: 40}}
  - {name: full, kind: latency, from: one, to: node, omit: 1s, duration: 2s, compare: true,
     underLoad: {kind: tcp, congestionControl: cubic, from: one, to: node},
     expect: {p50AtMost: 100ms}}
";

/// What each measurement is held to, in bit/s, and what of it TCP can carry: 1448 of 1514 bytes.
const LIMITS: [(&str, u64, u64); 2] = [
    ("down", 20_000_000, 19_128_137),
    ("up", 10_000_000, 9_564_068),
];

fn start() -> Option<(Node, tempfile::TempDir)> {
    let (node, folder) = lab::start(SCENARIO)?;
    fs::write(folder.path().join("net.conflist"), NETWORK).unwrap();
    fs::write(folder.path().join("pod.yaml"), POD).unwrap();
    Some((node, folder))
}

/// Runs the lab; its exit code and report. Plugins are looked for in this folder first.
fn report(folder: &Path, plugins: &Path) -> (Option<i32>, Value) {
    // Beside the command is where plugins are looked for before anywhere else.
    let command = plugins.join("netqos");
    if !command.exists() {
        fs::copy(netqos().get_program(), &command).unwrap();
    }
    let output = std::process::Command::new(command)
        .args(["lab", "run", "-q", "-o", "json"])
        .arg(folder)
        .output()
        .unwrap();
    let report = serde_json::from_slice(&output.stdout);
    (
        output.status.code(),
        report.unwrap_or_else(|why| panic!("{why}: {output:?}")),
    )
}

fn measured<'r>(measurements: &'r Value, name: &str) -> &'r Value {
    let all = measurements.as_array().unwrap();
    all.iter().find(|one| one["name"] == name).unwrap()
}

fn goodput(measurement: &Value) -> u64 {
    let goodput = &measurement["result"]["tcp"]["goodput"];
    goodput["bitsPerSecond"].as_u64().unwrap()
}

#[test]
fn a_pod_gets_what_was_configured_and_stays_responsive_unlike_without_netqos() {
    let plugin = bandwidth();
    let Some((_node, folder)) = start() else {
        return;
    };
    let plugins = tempfile::tempdir().unwrap();
    fs::copy(plugin, plugins.path().join("bandwidth")).unwrap();
    let has_theirs = Path::new("/usr/lib/cni/bandwidth").is_file();
    let trip = |measurement: &Value, quantile: &str| {
        let trips = &measurement["result"]["latency"]["roundTrip"];
        trips[quantile].as_u64().unwrap()
    };
    let full = |of: &Value, quantile| trip(measured(&of["measurements"], "full"), quantile);
    let (code, report) = report(folder.path(), plugins.path());
    assert_eq!(code, Some(0), "{report:#}");
    assert!(
        // The queue of the other plugin is not always full.
        !has_theirs || full(&report["comparison"], "p99Nanos") > 2 * full(&report, "p50Nanos"),
        "{report:#}"
    );
    for (name, rate, payload) in LIMITS {
        let measurement = measured(&report["measurements"], name);
        assert_eq!(measurement["verdict"], "held");
        let configured = &measurement["configured"];
        assert_eq!(configured["rate"], rate, "{configured}");
        assert_eq!(configured["payload"], payload, "{configured}");
        // By the test's own arithmetic, not by the lab's.
        let share = goodput(measurement) as f64 / payload as f64;
        assert!((0.6..=1.4).contains(&share), "{name}: {share}");
    }
    let ours = measured(&report["measurements"], "full");
    assert_eq!(ours["verdict"], "held");
    assert!(trip(ours, "p50Nanos") <= 100_000_000, "{ours}");

    if has_theirs {
        let comparison = &report["comparison"];
        assert_eq!(comparison["shaper"]["path"], "/usr/lib/cni/bandwidth");
        // Only what asks for it is measured once more.
        assert_eq!(comparison["measurements"].as_array().unwrap().len(), 1);
    }
}

/// A plugin that is not told of any limit holds none; that is found out, and the run fails.
#[test]
fn a_limit_that_is_not_held_fails_the_run() {
    let plugin = bandwidth();
    let Some((_node, folder)) = start() else {
        return;
    };
    let plugins = tempfile::tempdir().unwrap();
    let idle = plugins.path().join("bandwidth");
    let script = format!(
        "#!/bin/sh\nsed 's/\"runtimeConfig\"/\"nobodysConfig\"/' | exec {}\n",
        plugin.display()
    );
    fs::write(&idle, script).unwrap();
    fs::set_permissions(&idle, fs::Permissions::from_mode(0o755)).unwrap();
    let (code, report) = report(folder.path(), plugins.path());
    assert_eq!(code, Some(1), "{report}");
    for (name, _, payload) in LIMITS {
        let measurement = measured(&report["measurements"], name);
        assert_eq!(measurement["verdict"], "failed", "{measurement}");
        assert!(goodput(measurement) > 2 * payload, "{measurement}");
        let failure = measurement["failures"][0].as_str().unwrap();
        assert!(failure.contains("% were allowed"), "{failure}");
    }
}
