//! What neither a pod nor an agent changes: the limits of a NAD, and the node's directories.

use netqos_api::npwg::{AttachmentGrant, digest};
use serde_json::{Value, json};

use super::fixture::MultinetNode;

/// host-local keeps addresses in a directory of the configuration's choice.
fn config(key: &str, directory: &str) -> Value {
    json!({"cniVersion": "1.0.0", "name": "net", "type": "bridge", "bridge": "data0",
        "ipam": {"type": "host-local", key: directory, "ranges": [[{"subnet": "10.88.0.0/24"}]]}})
}

/// A compromised agent permits any configuration by its digest.
fn by_digest(config: &Value) -> AttachmentGrant {
    AttachmentGrant {
        digests: [digest(&config.to_string())].into(),
        ..AttachmentGrant::default()
    }
}

/// Plugins in Go read keys in any case, and a path that does not begin at the root begins where the runtime runs.
#[test]
fn relative_path_under_unknown_key_leads_nowhere() {
    let Some(node) = MultinetNode::new() else {
        return;
    };
    let before = node.inventory();
    for (directory, expected) in [
        ("var/lib/planted", "no such file or directory"),
        ("../../../../../../var/lib/planted", "is not permitted"),
        ("a/../../var/lib/planted", "is not permitted"),
    ] {
        let config = config("DataDir", directory);
        node.define_with("shop/net", &config, by_digest(&config));
        let pod = node.node.empty_pod("web").unwrap();
        let (_, error) = node
            .call("ADD", &pod, Some("net"), json!({}))
            .fail()
            .unwrap();
        assert!(error.contains(expected), "{directory}: {error}");
        assert_eq!(node.inventory(), before, "{directory}");
        pod.remove(&node.node).unwrap();
    }
}

#[test]
fn device_of_an_agent_that_is_a_path_is_refused() {
    let Some(node) = MultinetNode::new() else {
        return;
    };
    node.define_two();
    node.give_device("shop/lan", "intel.com/sriov", "../../etc/passwd");
    let pod = node.node.empty_pod("web").unwrap();
    let before = node.inventory();
    let (_, error) = node
        .call("ADD", &pod, Some("lan"), json!({}))
        .fail()
        .unwrap();
    assert!(error.contains("is a path"), "{error}");
    assert_eq!(node.inventory(), before);
}

/// A second plugin `bandwidth` would take the place of the first.
#[test]
fn pod_does_not_change_the_limit_that_its_network_fixes() {
    let Some(node) = MultinetNode::new() else {
        return;
    };
    let config = |capabilities: Value| {
        json!({"cniVersion": "1.0.0", "name": "lan", "plugins": [
            {"type": "bridge", "bridge": "data0",
             "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.88.0.0/24"}]]}},
            {"type": "bandwidth", "ingressRate": 8_000_000, "ingressBurst": 800_000, "capabilities": capabilities},
        ]})
    };
    let requested =
        r#"[{"name": "lan", "bandwidth": {"ingressRate": 80000000, "ingressBurst": 800000}}]"#;
    let limits = || node.node.run("tc", &["qdisc", "show"]).unwrap();
    let pod = node.node.empty_pod("web").unwrap();
    let before = node.inventory();
    for capabilities in [json!({}), json!({"bandwidth": true})] {
        node.define("shop/lan", &config(capabilities));
        let (_, error) = node
            .call("ADD", &pod, Some(requested), json!({}))
            .fail()
            .unwrap();
        let expected = "plugin bandwidth of the configuration takes none from pods";
        assert!(error.contains(expected), "{error}");
        assert_eq!(node.inventory(), before);
        node.call("ADD", &pod, Some("lan"), json!({}))
            .succeed()
            .unwrap();
        assert!(limits().contains("rate 8Mbit"), "{}", limits());
        node.call("DEL", &pod, None, json!({})).succeed().unwrap();
        assert_eq!(node.inventory(), before);
    }
}
