//! DEL while ADD still runs, and a network namespace that goes between two attachments.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use netqos_datapath::FileLock;
use netqos_testkit::Pod;
use serde_json::{Value, json};

use super::fixture::{BIN, MultinetNode, PLUGINS, wait_until, write_script};

const RECORD: &str = "/var/lib/netqos/multinet/pods/web.json";
const LOCK: &str = "/var/lib/netqos/multinet/pods/web.lock";
/// The networks of a pod whose third attachment waits for the test.
const NETWORKS: &str = "lan,slow,lan";

/// A node with the network `shop/slow`, whose ADD waits until `/run/go` is there, at most ten seconds.
fn node() -> Option<MultinetNode> {
    let node = MultinetNode::new()?;
    let script = "#!/bin/sh\nif [ $CNI_COMMAND = ADD ]; then\n: > /run/waits\n\
                  for it in $(seq 500); do [ -e /run/go ] && break; sleep 0.02; done\nfi\nexec /usr/lib/cni/bridge\n";
    write_script("slow", script);
    node.define_by_digest(
        "shop/slow",
        &json!({"cniVersion": "1.0.0", "type": "slow", "bridge": "data0",
                "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.84.0.0/24"}]]}}),
    );
    Some(node)
}

fn dirs() -> Value {
    json!({"pluginDirs": [BIN, PLUGINS]})
}

/// Calls ADD, and DEL once it waits in the middle; does something to the pod; then lets ADD go on. Returns the exit code of
/// ADD, and its output.
fn del_during_add(
    node: &MultinetNode,
    pod: &Pod,
    meanwhile: impl FnOnce(),
) -> (Option<i32>, String) {
    let add = node.call("ADD", pod, Some(NETWORKS), dirs());
    let add = add.start().unwrap();
    wait_until(|| Path::new("/run/waits").exists());
    let halfway = node.inventory();
    let del = node.call("DEL", pod, None, dirs()).start().unwrap();
    thread::sleep(Duration::from_millis(300));
    assert_eq!(node.inventory(), halfway, "DEL does not wait");
    assert!(Path::new(RECORD).exists());
    meanwhile();
    fs::write("/run/go", "").unwrap();
    let added = add.finish().unwrap();
    let deleted = del.finish().unwrap();
    assert_eq!(deleted.code, Some(0), "{deleted:?}");
    (added.code, added.stdout)
}

#[test]
fn del_during_add_waits_for_it_and_leaves_nothing() {
    let Some(node) = node() else { return };
    let pod = node.pod("web");
    let before = node.inventory();
    let (code, output) = del_during_add(&node, &pod, || ());
    assert_eq!(code, Some(0), "{output}");
    assert_eq!(node.inventory(), before);
    let links = node.in_pod(&pod, "ip -o link");
    assert_eq!(links.lines().count(), 1, "{links}");
}

#[test]
fn add_fails_and_leaves_nothing_if_the_network_namespace_goes_meanwhile() {
    let Some(node) = node() else { return };
    let before = node.inventory();
    let pod = node.pod("web");
    let (code, output) = del_during_add(&node, &pod, || node.remove(&pod));
    assert_eq!(code, Some(1), "{output}");
    assert!(output.contains("shop/slow, interface net2: "), "{output}");
    node.assert_only(&before);
}

/// The other networks were attached in a namespace that is not there any more.
#[test]
fn add_without_del_undoes_itself_if_the_network_namespace_goes_meanwhile() {
    let Some(node) = node() else { return };
    let before = node.inventory();
    let pod = node.pod("web");
    let add = node.call("ADD", &pod, Some(NETWORKS), dirs());
    let add = add.start().unwrap();
    wait_until(|| Path::new("/run/waits").exists());
    node.remove(&pod);
    fs::write("/run/go", "").unwrap();
    let added = add.finish().unwrap();
    assert_eq!(added.code, Some(1), "{added:?}");
    node.assert_only(&before);
}

#[test]
fn call_that_waits_too_long_for_another_is_to_be_tried_again() {
    let Some(node) = node() else { return };
    let pod = node.pod("web");
    node.add(&pod, Some("lan"));
    let before = node.inventory();
    let lock = FileLock::wait(Path::new(LOCK)).unwrap();
    let calls =
        ["ADD", "DEL"].map(|it| node.call(it, &pod, Some("lan"), json!({})).start().unwrap());
    for call in calls {
        let outcome = call.finish().unwrap();
        let error: Value = serde_json::from_str(&outcome.stdout).unwrap();
        assert_eq!(error["code"], 11, "{error}");
        let message = error["msg"].as_str().unwrap();
        assert!(
            message.contains("another call for container web"),
            "{error}"
        );
        assert!(message.contains("still runs"), "{error}");
    }
    assert_eq!(node.inventory(), before);
    drop(lock);
    node.check(&pod);
    node.del(&pod);
}
