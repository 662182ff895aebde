//! Sandboxes of other lists, and a default network that cannot be read.

use std::fs;

use serde_json::json;

use crate::fixture::MultinetNode;

#[test]
fn gc_by_another_list_leaves_the_sandbox() {
    let Some(node) = MultinetNode::new() else {
        return;
    };
    node.define_two();
    let pod = node.node.empty_pod("web").unwrap();
    let before = node.inventory();
    node.call("ADD", &pod, Some("lan"), json!({}))
        .succeed()
        .unwrap();
    let attached = node.inventory();
    let none =
        |name: &str| json!({"cniVersion": "1.1.0", "name": name, "cni.dev/valid-attachments": []});
    node.call("GC", &pod, None, none("other"))
        .succeed()
        .unwrap();
    assert_eq!(node.inventory(), attached);
    node.call("CHECK", &pod, None, json!({})).succeed().unwrap();
    node.call("GC", &pod, None, none("pods")).succeed().unwrap();
    assert_eq!(node.inventory(), before);

    // An administrator may have given the list another name since.
    let gone = node.node.empty_pod("gone").unwrap();
    node.call("ADD", &gone, Some("lan"), json!({}))
        .succeed()
        .unwrap();
    gone.remove(&node.node).unwrap();
    node.call("GC", &pod, None, none("other"))
        .succeed()
        .unwrap();
    assert_eq!(node.inventory(), before);
}

/// The runtime attached the pod before this plugin came, and its result is lost.
#[test]
fn del_without_the_default_network_fails_while_the_pod_has_its_interface() {
    let Some(node) = MultinetNode::new() else {
        return;
    };
    let pod = node.node.empty_pod("web").unwrap();
    let before = node.inventory();
    node.call("ADD", &pod, None, json!({})).succeed().unwrap();
    fs::remove_dir_all("/var/lib/netqos/multinet").unwrap();
    fs::create_dir_all("/run/lists").unwrap();
    let list = "/run/lists/10-pods.conflist";
    fs::write(list, "{\"cniVersion\": ").unwrap();
    let from_file = || json!({"defaultNetwork": list});
    let (code, error) = node.call("DEL", &pod, None, from_file()).fail().unwrap();
    assert_eq!(code, 11, "{error}");
    assert!(error.contains("cannot read the default network"), "{error}");

    let whole = json!({"cniVersion": "1.0.0", "name": "pods", "plugins": [
        {"type": "bridge", "bridge": "pods0", "isGateway": true,
         "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.87.0.0/24"}]]}},
    ]});
    fs::write(list, whole.to_string()).unwrap();
    node.call("DEL", &pod, None, from_file()).succeed().unwrap();
    fs::remove_file(list).unwrap();
    // As after an ADD that had no default network.
    node.call("DEL", &pod, None, from_file()).succeed().unwrap();
    assert_eq!(node.inventory(), before);
}
