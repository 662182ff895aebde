//! What neither a pod nor an agent changes: the limits of a NAD, and the node's directories.

use serde_json::{Value, json};

use super::fixture::{bridge, node, start};

/// host-local keeps addresses in a directory of the configuration's choice.
fn config(key: &str, directory: &str) -> Value {
    json!({"cniVersion": "1.0.0", "name": "net", "type": "bridge", "bridge": "data0",
        "ipam": {"type": "host-local", key: directory, "ranges": [[{"subnet": "10.88.0.0/24"}]]}})
}

/// Plugins in Go read keys in any case, and a path that does not begin at the root begins where the runtime runs.
#[test]
fn relative_path_under_unknown_key_leads_nowhere() {
    let Some(node) = node() else { return };
    let before = node.inventory();
    for (directory, expected) in [
        ("var/lib/planted", "no such file or directory"),
        ("../../../../../../var/lib/planted", "is not permitted"),
        ("a/../../var/lib/planted", "is not permitted"),
    ] {
        let config = config("DataDir", directory);
        // A compromised agent permits any configuration by its digest.
        node.define_by_digest("shop/net", &config);
        let pod = node.pod("web");
        let (_, error) = node.refuse(&pod, Some("net"));
        assert!(error.contains(expected), "{directory}: {error}");
        assert_eq!(node.inventory(), before, "{directory}");
        node.remove(&pod);
    }
}

#[test]
fn device_of_an_agent_that_is_a_path_is_refused() {
    let Some((node, pod)) = start() else { return };
    node.give_device("shop/lan", "intel.com/sriov", "../../etc/passwd");
    let before = node.inventory();
    let (_, error) = node.refuse(&pod, Some("lan"));
    assert!(error.contains("is a path"), "{error}");
    assert_eq!(node.inventory(), before);
}

/// A second plugin `bandwidth` would take the place of the first.
#[test]
fn pod_does_not_change_the_limit_that_its_network_fixes() {
    let Some((node, pod)) = start() else { return };
    let config = |capabilities: Value| {
        json!({"cniVersion": "1.0.0", "name": "lan", "plugins": [
            bridge("data0", "10.88.0.0/24"),
            {"type": "bandwidth", "ingressRate": 8_000_000, "ingressBurst": 800_000, "capabilities": capabilities},
        ]})
    };
    let requested =
        r#"[{"name": "lan", "bandwidth": {"ingressRate": 80000000, "ingressBurst": 800000}}]"#;
    let limits = || node.node.run("tc", &["qdisc", "show"]).unwrap();
    let before = node.inventory();
    for capabilities in [json!({}), json!({"bandwidth": true})] {
        node.define("shop/lan", &config(capabilities));
        let (_, error) = node.refuse(&pod, Some(requested));
        let expected = "plugin bandwidth of the configuration takes none from pods";
        assert!(error.contains(expected), "{error}");
        assert_eq!(node.inventory(), before);
        node.add(&pod, Some("lan"));
        assert!(limits().contains("rate 8Mbit"), "{}", limits());
        node.del(&pod);
        assert_eq!(node.inventory(), before);
    }
}
