//! Who is to share the node's lines, by objects and by another agent's files.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};

use crate::config_map::config_map;
use crate::{assert_code, run, stderr, stdout};

/// A line of 100 Mbit/s of which l2 has 20 guaranteed, and at most 80; in bytes.
fn node_file() -> String {
    let side = |way: &str| {
        let of = |name: &str, megabits: u64| (name.replace("tx", way), json!(megabits * 125_000));
        [
            of("hw_tx_bps_max", 100),
            of("l1_tx_bps_min", 30),
            of("l1_tx_bps_max", 100),
            of("l2_tx_bps_min", 20),
            of("l2_tx_bps_max", 80),
        ]
    };
    let numbers = side("tx").into_iter().chain(side("rx"));
    Value::Object(numbers.collect()).to_string()
}

fn pods_file() -> String {
    json!([{
        "cgroup": "", "priority": 2, "pod": "games/a", "podUID": "1-2-3",
        "qos-config": {"egress": [
            {"matchs": [{"type": "port", "expr": "=80"}],
             "actions": [{"action": "qos-class", "value": "l0"}]},
            {"matchs": [], "actions": [{"action": "bandwidth_max", "value": "1250000"}]}
        ]}
    }])
    .to_string()
}

const POD: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: a, namespace: games}
spec: {nodeName: node1}
status: {podIP: 10.1.0.2}
";

fn plan(folder: &Path, more: &[&str]) -> Output {
    let (objects, files) = (folder.join("objects"), folder.join("net"));
    let named = [objects.to_str().unwrap(), files.to_str().unwrap()];
    let first = [
        "plan",
        "--node",
        "node1",
        "--manifests",
        named[0],
        "--koordinator-net-files",
        named[1],
    ];
    run(&[&first[..], more].concat())
}

#[test]
fn a_plan_reads_what_another_agent_says_by_files() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    for folder in ["objects", "net"] {
        fs::create_dir(place.join(folder)).unwrap();
    }
    let write = |name: &str, text: &str| fs::write(place.join(name), text).unwrap();
    write("objects/pod.yaml", POD);
    write("net/node", &node_file());
    write("net/pods", &pods_file());
    let output = plan(place, &["-o", "json"]);
    assert_code(&output, 0);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["classBackend"], "kernel");
    let best_effort = &found["lines"]["eth0"]["egress"]["bestEffort"];
    let expected = json!({"min": 20_000_000, "max": 80_000_000});
    assert_eq!(*best_effort, expected);
    let class = &found["podClasses"][0];
    assert_eq!(
        (&class["name"], &class["class"], &class["because"]),
        (
            &json!("a"),
            &json!("best-effort"),
            &json!("another agent's file pods")
        )
    );
    let parts = class["parts"].as_array().unwrap();
    let part = |direction: &str, flow: &str| {
        let mut parts = parts.iter();
        parts
            .find(|it| it["direction"] == direction && it["flow"] == flow)
            .unwrap()
    };
    assert_eq!(
        *part("egress", ""),
        json!({
            "line": "eth0", "direction": "egress", "flow": "", "class": "best-effort",
            "own": true, "min": 0, "max": 10_000_000
        })
    );
    assert_eq!(part("egress", "port 80")["class"], "system");
    assert_eq!(part("ingress", "")["own"], false);

    let table = stdout(&plan(place, &[]));
    let row = table.lines().find(|line| line.contains("port 80")).unwrap();
    assert!(row.contains("games/a") && row.contains("system"), "{table}");
    assert!(table.contains("shared by kernel"), "{table}");

    // Objects go before the file, and a backend that writes these files reads none.
    let config = config_map((30, 100), (10, 50));
    write("objects/config.json", &config.to_string());
    let of_objects: Value = serde_json::from_slice(&plan(place, &["-o", "json"]).stdout).unwrap();
    let best_effort = &of_objects["lines"]["eth0"]["egress"]["bestEffort"];
    assert_eq!(best_effort["max"], 50_000_000);
    fs::remove_file(place.join("objects/config.json")).unwrap();
    let slo = json!({
        "apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeSLO", "metadata": {"name": "node1"},
        "spec": {
            "resourceQOSStrategy": {"beClass": {"networkQOS": {"egressRequest": 5}}},
            "systemStrategy": {"totalNetworkBandwidth": "1000M"}
        }
    });
    write("objects/slo.json", &slo.to_string());
    let of_slo: Value = serde_json::from_slice(&plan(place, &["-o", "json"]).stdout).unwrap();
    let best_effort = &of_slo["lines"]["eth0"]["egress"]["bestEffort"];
    assert_eq!(best_effort["min"], 50_000_000);
    fs::remove_file(place.join("objects/slo.json")).unwrap();
    let terway = plan(place, &["-o", "json", "--class-backend", "terway-qos"]);
    let terway_plan: Value = serde_json::from_slice(&terway.stdout).unwrap();
    assert_eq!(terway_plan["lines"], json!({}));
    assert!(
        stderr(&terway).contains("terway-qos, which writes it itself"),
        "{terway:?}"
    );

    write("net/node", "{");
    let wrong = plan(place, &[]);
    assert_code(&wrong, 1);
    assert!(stderr(&wrong).contains("net/node: "), "{wrong:?}");
    fs::remove_dir_all(place.join("net")).unwrap();
    let nowhere = plan(place, &[]);
    assert_code(&nowhere, 2);
    assert!(stderr(&nowhere).contains("net: "), "{nowhere:?}");
}
