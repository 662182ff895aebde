//! Definitions and requests that reach for more than was permitted.

use netqos_api::npwg::{AttachmentGrant, digest};
use netqos_cni::runtime::{AttachmentRequest, NetworkConfigList, Runtime};
use serde_json::{Value, json};

use super::fixture;
use super::fixture::{MultinetNode, bridge, node, record, start};

/// All that a configuration can name, but nothing that netqos does not know.
fn everything() -> AttachmentGrant {
    AttachmentGrant {
        host_paths: ["/".to_owned()].into(),
        ..fixture::everything()
    }
}

/// Returns the error of a pod that selects `shop/net`, and asserts that nothing is left of it.
fn refused(node: &MultinetNode, selection: &str, more: Value) -> String {
    let pod = node.pod("web");
    let before = node.inventory();
    let add = node.call("ADD", &pod, Some(selection), more);
    let (_, error) = add.fail().unwrap();
    assert_eq!(node.inventory(), before);
    node.remove(&pod);
    error
}

#[test]
fn device_beside_configuration_that_digest_permits_is_refused() {
    let Some(node) = node() else { return };
    let config = json!({"cniVersion": "1.0.0", "type": "host-device", "pciBusID": "0000:03:00.1"});
    node.define_by_digest("shop/net", &config);
    // The plugin itself fails: there is no such device.
    let error = refused(&node, "net", json!({}));
    assert!(!error.contains("permitted"), "{error}");
    let other = r#"[{"name": "net", "deviceID": "0000:00:03.0"}]"#;
    let error = refused(&node, other, json!({}));
    assert!(error.contains("is not permitted"), "{error}");
}

/// Plugins in Go read keys in any case.
#[test]
fn path_under_unknown_key_is_held_to_paths_of_the_node() {
    let Some(node) = node() else { return };
    let config = json!({"cniVersion": "1.0.0", "type": "bridge", "bridge": "data0",
        "ipam": {"type": "host-local", "DataDir": "/etc/cron.d", "subnet": "10.88.0.0/24"}});
    let grant = AttachmentGrant {
        digests: [digest(&config.to_string())].into(),
        ..everything()
    };
    node.define_with("shop/net", &config, grant);
    let error = refused(&node, "net", json!({}));
    assert!(error.contains("plugins[0].ipam.DataDir"), "{error}");
    let error = refused(&node, "net", json!({"hostPaths": ["/var/lib/cni"]}));
    assert!(error.contains("/etc/cron.d"), "{error}");
}

/// Everything, but of the keys that reach the host only these.
fn everything_with_keys(keys: &[&str]) -> AttachmentGrant {
    AttachmentGrant {
        host_keys: keys.iter().map(|it| (*it).to_owned()).collect(),
        ..everything()
    }
}

/// The node would route the address of another pod, or its own, into this one.
#[test]
fn ptp_with_addresses_is_refused_without_permission_of_its_own() {
    let Some(node) = node() else { return };
    let config = json!({"cniVersion": "1.0.0", "type": "ptp", "ipam": {"type": "static",
        "addresses": [{"address": "10.90.0.5/24", "gateway": "10.90.0.1"}]}});
    let shows_route = ["route", "show", "10.90.0.5"];
    let route = || node.node.run("ip", &shows_route).unwrap();
    for keys in [&[][..], &["ptp.ipMasq", "bridge.isGateway"]] {
        node.define_with("shop/net", &config, everything_with_keys(keys));
        let error = refused(&node, "net", json!({}));
        let expected = r#"plugins[0].ipam: key "ptp.ipam" is not permitted"#;
        assert!(error.contains(expected), "{error}");
        assert_eq!(route(), "");
    }
    node.define_with("shop/net", &config, everything_with_keys(&["ptp.ipam"]));
    let pod = node.pod("web");
    let before = node.inventory();
    node.add(&pod, Some("net"));
    assert_ne!(route(), "");
    node.del(&pod);
    assert_eq!(route(), "");
    assert_eq!(node.inventory(), before);
}

/// The pod would take a port of the node, such as that of the kubelet.
#[test]
fn port_mappings_are_refused_without_permission_of_their_own() {
    let Some(node) = node() else { return };
    let config = |capabilities: Value| {
        json!({"cniVersion": "1.0.0", "name": "ports", "plugins": [
            bridge("data0", "10.88.0.0/24"), {"type": "portmap", "capabilities": capabilities},
        ]})
    };
    let selection =
        r#"[{"name": "net", "portMappings": [{"hostPort": 10250, "containerPort": 80}]}]"#;
    let declared = config(json!({"portMappings": true}));
    for keys in [&[][..], &["portmap.snat", "ptp.ipam"]] {
        node.define_with("shop/net", &declared, everything_with_keys(keys));
        for selection in ["net", selection] {
            let error = refused(&node, selection, json!({}));
            let expected = r#"plugins[1].capabilities.portMappings: key "portmap.portMappings" is not permitted"#;
            assert!(error.contains(expected), "{error}");
        }
    }
    // Without the capability, portmap takes no port, and the request has no plugin.
    node.define_with("shop/net", &config(json!({})), everything_with_keys(&[]));
    let error = refused(&node, selection, json!({}));
    assert!(
        error.contains("no plugin of the configuration has that"),
        "{error}"
    );
    // It is permitted: the first plugin is looked for, which is that of the default network.
    let permitted = everything_with_keys(&["portmap.portMappings"]);
    node.define_with("shop/net", &declared, permitted);
    let error = refused(&node, selection, json!({"pluginDirs": ["/absent"]}));
    assert!(
        error.contains("the default network, interface eth0"),
        "{error}"
    );
}

/// The error is in events of the pod, and in logs of the node.
#[test]
fn error_of_nad_with_ten_thousand_unknown_keys_is_short() {
    let Some(node) = node() else { return };
    let mut config = json!({"cniVersion": "1.0.0", "type": "bridge", "bridge": "data0"});
    let keys = (0..10_000).map(|index| (format!("key{index:05}"), json!(1)));
    config.as_object_mut().unwrap().extend(keys);
    node.define_with("shop/net", &config, everything());
    let error = refused(&node, "net", json!({}));
    assert!(error.contains("plugins[0].key00004: "), "{error}");
    assert!(!error.contains("key00005"), "{error}");
    let end = ", and 9995 more (not by NetworkAttachmentPolicy all)";
    assert!(error.contains(end), "{error}");
    assert!(error.len() < 2_000, "{error}");

    // The parser repeats what it has read.
    node.define_with("shop/net", &json!("x".repeat(100_000)), everything());
    let error = refused(&node, "net", json!({}));
    assert!(error.len() < 5_000, "{} bytes", error.len());
}

/// host-local keeps addresses by the network's name, and GC goes by it.
#[test]
fn nad_with_name_of_default_network_is_refused() {
    let Some(node) = node() else { return };
    let mut config = bridge("data0", "10.87.0.0/24");
    config["name"] = "pods".into();
    node.define_with("shop/net", &config, everything());
    let error = refused(&node, "net", json!({}));
    assert!(error.contains("name of the default network"), "{error}");
}

#[test]
fn default_network_that_calls_multus_starts_no_pod() {
    let Some((node, pod)) = start() else { return };
    let multus = json!({"type": "multus", "clusterNetwork": "/etc/cni/net.d/10-pods.conflist"});
    let list = json!({"cniVersion": "1.0.0", "name": "multus", "plugins": [multus]});
    let call = node.call("ADD", &pod, None, json!({"defaultNetwork": list}));
    let (code, error) = call.fail().unwrap();
    assert_eq!(code, 11);
    assert!(error.contains("calls multus"), "{error}");
}

/// The runtime attached it to the default network before it called this plugin.
#[test]
fn del_of_pod_without_record_releases_what_runtime_attached() {
    let Some(node) = node() else { return };
    let pod = node.pod("old");
    let before = node.inventory();
    let mut config = bridge("pods0", "10.87.0.0/24");
    config["name"] = "pods".into();
    config["isGateway"] = true.into();
    let add = netqos_testkit::Call::of("/usr/lib/cni/bridge", "ADD", &pod, &config);
    add.variable("CNI_PATH", "/usr/lib/cni").succeed().unwrap();
    assert_ne!(node.inventory(), before);
    node.del(&pod);
    assert_eq!(node.inventory(), before);
}

/// The default network was another one then.
#[test]
fn del_of_pod_without_record_calls_the_plugins_of_its_add() {
    let Some(node) = node() else { return };
    let pod = node.pod("old");
    let before = node.inventory();
    let plugins = [bridge("data0", "10.85.0.0/24")];
    let list = json!({"cniVersion": "1.0.0", "name": "former", "plugins": plugins});
    let runtime = Runtime::new(["/usr/lib/cni"], "/var/lib/cni");
    let list = NetworkConfigList::parse(list.to_string().as_bytes()).unwrap();
    let call = AttachmentRequest::new("old", "eth0").in_netns(pod.netns());
    runtime.add(&list, &call).unwrap();
    assert_ne!(node.inventory(), before);
    node.del(&pod);
    assert_eq!(node.inventory(), before);
}

/// go-cni takes an error of DEL with one of these texts for a success, and the sandbox is forgotten.
#[test]
fn error_of_del_is_not_taken_for_success() {
    let Some((node, pod)) = start() else { return };
    node.add(&pod, Some("lan"));
    for text in ["not found", "no such file or directory"] {
        let without = json!({"pluginDirs": [format!("/{text}")]});
        let del = node.call("DEL", &pod, None, without).without("CNI_NETNS");
        let (_, error) = del.fail().unwrap();
        assert!(!error.contains(text), "{error}");
    }
    node.del(&pod);
}

/// The pod would choose its addresses for the whole cluster.
#[test]
fn nad_of_tenant_does_not_stand_in_for_the_default_network() {
    let Some((node, pod)) = start() else { return };
    node.define("kube-system/other", &bridge("data0", "10.86.0.0/24"));
    let before = node.inventory();
    let chosen = |nad: &str| {
        let annotations = json!({"v1.multus-cni.io/default-network": nad});
        json!({"runtimeConfig": {"io.kubernetes.cri.pod-annotations": annotations}})
    };
    for config in [
        chosen("shop/lan"),
        json!({"specLiteral": true, "runtimeConfig": chosen("shop/lan")["runtimeConfig"]}),
    ] {
        let (_, error) = node.call("ADD", &pod, None, config).fail().unwrap();
        assert!(
            error.contains("only NetworkAttachmentDefinitions of kube-system"),
            "{error}"
        );
        assert_eq!(node.inventory(), before);
    }
    let result = node
        .call("ADD", &pod, None, chosen("other"))
        .succeed()
        .unwrap();
    let address = result["ips"][0]["address"].as_str().unwrap();
    assert!(address.starts_with("10.86.0."), "{result}");
    let record = record("web");
    let status = &record["status"];
    assert_eq!(status.as_array().map(Vec::len), Some(1), "{status}");
    assert_eq!(status[0]["name"], "kube-system/other");
    assert_eq!(status[0]["interface"], "eth0");
    assert_eq!(status[0]["default"], true, "{status}");
    node.del(&pod);
    assert_eq!(node.inventory(), before);
}
