//! `netqos check` lists sandboxes whose DEL fails, and `netqos cleanup --forget` gives one up.

use std::fs;
use std::path::Path;

use netqos_datapath::FileLock;
use netqos_testkit::run_killed_at;
use serde_json::{Value, json};

use crate::{assert_code, netqos, node, run, stderr, stdout, succeed};

const STATE: &str = "/var/lib/netqos/multinet";

/// The record of a sandbox whose DEL failed.
fn failed_record() -> Value {
    let plugin = json!({"type": "bridge", "ipam": {"type": "host-local"}});
    let attachment = json!({"driver": "cni", "nad": "shop/lan", "interface": "net1", "args": [], "capabilityArgs": {},
                            "list": {"cniVersion": "1.0.0", "name": "lan", "plugins": [plugin]}});
    json!({"containerId": "c1", "netns": "/run/netns/n", "pod": {"namespace": "shop", "name": "web"},
                        "made": 1, "attachments": [attachment], "failure": "no plugin bridge"})
}

#[test]
fn sandbox_whose_del_fails_is_listed_until_it_is_given_up() {
    let Some(_node) = node() else { return };
    let path = format!("{STATE}/pods/c1.json");
    fs::create_dir_all(format!("{STATE}/pods")).unwrap();
    let record = failed_record();
    fs::write(&path, record.to_string()).unwrap();
    let failed = || {
        let report: Value = serde_json::from_str(&stdout(&run(&["check", "-o", "json"]))).unwrap();
        report["failedDeletes"].clone()
    };
    let forget = |more: &[&str]| run(&[&["cleanup", "--forget"], more].concat());

    // A pod that runs: no DEL has failed, and its namespace is there.
    let mut healthy = record.clone();
    healthy["failure"] = Value::Null;
    healthy["netns"] = json!("/proc/self/ns/net");
    fs::write(&path, healthy.to_string()).unwrap();
    let refused = forget(&["c1", "--yes"]);
    assert_code(&refused, 1);
    let why = stderr(&refused);
    assert!(why.contains("no DEL of it has failed"), "{why}");
    assert!(why.contains("delete the pod first"), "{why}");
    assert_eq!(fs::read_to_string(&path).unwrap(), healthy.to_string());
    fs::write(&path, record.to_string()).unwrap();

    let finding = &failed()[0];
    let message = finding["message"].as_str().unwrap();
    assert_eq!(message, format!("shop/web: no plugin bridge ({path})"));
    let remedy = finding["remedy"].as_str().unwrap();
    assert!(remedy.ends_with("netqos cleanup --forget c1"), "{remedy}");

    let unknown = forget(&["c2", "--yes"]);
    assert_code(&unknown, 1);
    assert!(stderr(&unknown).contains("sandbox c2: it has no record and no result"));
    // Nobody confirms it, or a call runs.
    assert_code(&forget(&["c1"]), 2);
    let lock = FileLock::attempt(Path::new(&format!("{STATE}/pods/c1.lock"))).unwrap();
    assert_code(&forget(&["c1", "--yes"]), 1);
    drop(lock);
    assert_eq!(fs::read_to_string(&path).unwrap(), record.to_string());

    let said = succeed(&forget(&["c1", "--yes", "-o", "json"]));
    let left: Value = serde_json::from_str(&said).unwrap();
    let expected = json!({"sandbox": "c1", "pod": "shop/web", "netns": "/run/netns/n", "record": path,
        "failure": "no plugin bridge", "attachments": [{"network": "lan", "interface": "net1", "links": [], "addresses": [],
        "plugins": ["bridge", "host-local"]}]});
    assert_eq!(left, expected);
    assert_eq!(failed(), Value::Null);
    let record: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    assert_eq!(record["attachments"], json!([]));
}

/// DEL removes an empty record, and the next one would call plugins by a result.
#[test]
fn sandbox_with_an_empty_record_has_no_result() {
    let Some(_node) = node() else { return };
    let path = format!("{STATE}/pods/c1.json");
    let result = format!("{STATE}/results/lan-c1-net1");
    for directory in ["pods", "results"] {
        fs::create_dir_all(format!("{STATE}/{directory}")).unwrap();
    }
    let cached =
        json!({"kind": "cniCacheV1", "containerId": "c1", "ifName": "net1", "networkName": "lan"});
    for nth in (0..10_000).step_by(2) {
        fs::write(&path, failed_record().to_string()).unwrap();
        fs::write(&result, cached.to_string()).unwrap();
        let mut forget = netqos();
        forget.args(["cleanup", "--yes", "--forget", "c1"]);
        let was_killed = run_killed_at(&mut forget, nth).unwrap();
        let record: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let is_given_up = record["attachments"] == json!([]);
        let has_result = Path::new(&result).exists();
        assert!(
            !is_given_up || !has_result,
            "killed before system call {nth}"
        );
        if !was_killed {
            assert!(is_given_up);
            return;
        }
    }
    panic!("it makes more than 10,000 system calls");
}
