//! Requests of a pod's annotation beside the networks' names.

use netqos_api::npwg::AttachmentGrant;
use serde_json::{Value, json};

use super::fixture::{MultinetNode, record, start};

fn routes(node: &MultinetNode, pod: &netqos_testkit::Pod) -> String {
    node.in_pod(pod, "ip route show default")
}

/// A configuration whose default network is the way to all others.
fn with_default_gateway(ranges: &Value) -> Value {
    json!({"defaultNetwork": {"cniVersion": "1.0.0", "name": "pods", "plugins": [
        {"type": "bridge", "bridge": "pods0", "isGateway": true, "isDefaultGateway": true,
         "ipam": {"type": "host-local", "ranges": ranges}},
    ]}})
}

#[test]
fn default_route_leads_through_the_network_that_the_pod_names() {
    let Some((node, pod)) = start() else { return };
    let call = |command: &str, networks: Option<&str>| {
        let more = with_default_gateway(&json!([[{"subnet": "10.87.0.0/24"}]]));
        node.call(command, &pod, networks, more).succeed().unwrap()
    };
    call("ADD", Some("lan"));
    let found = routes(&node, &pod);
    assert!(found.contains("via 10.87.0.1 dev eth0"), "{found}");
    call("DEL", None);

    let selection = r#"[{"name": "lan", "default-route": []}]"#;
    let result = call("ADD", Some(selection));
    assert_eq!(routes(&node, &pod), "");
    assert_eq!(result.get("routes"), None);
    // Nor does it look for the route that is gone.
    call("CHECK", None);
    call("DEL", None);

    let selection = r#"[{"name": "lan", "default-route": ["10.88.0.9"]}]"#;
    let result = call("ADD", Some(selection));
    let found = routes(&node, &pod);
    assert_eq!(found.trim(), "default via 10.88.0.9 dev net1");
    let is_default = |route: &Value| route["dst"] == "0.0.0.0/0";
    let told = result["routes"]
        .as_array()
        .into_iter()
        .flatten()
        .any(is_default);
    assert!(
        !told,
        "the runtime is told of no other default route: {result}"
    );
    call("DEL", None);
}

#[test]
fn default_route_by_ipv6_leaves_that_of_ipv4() {
    let Some((node, pod)) = start() else { return };
    let ranges = |number: u8| json!([[{"subnet": format!("10.{number}.0.0/24")}], [{"subnet": format!("fd00:{number}::/64")}]]);
    node.define(
        "shop/both",
        &json!({"cniVersion": "1.0.0", "type": "bridge", "bridge": "data0",
                "ipam": {"type": "host-local", "ranges": ranges(86)}}),
    );
    let call = |command: &str, networks: Option<&str>| {
        let more = with_default_gateway(&ranges(87));
        node.call(command, &pod, networks, more).succeed().unwrap()
    };
    let before = node.inventory();
    let of_both = || {
        let shown = pod.run(&node.node, "ip", &["-6", "route", "show", "default"]);
        [routes(&node, &pod), shown.unwrap()]
    };
    call("ADD", Some("both"));
    let [ipv4, ipv6] = of_both();
    assert!(ipv4.contains("via 10.87.0.1 dev eth0"), "{ipv4}");
    assert!(ipv6.contains("via fd00:87::1 dev eth0"), "{ipv6}");
    call("DEL", None);

    let selection = r#"[{"name": "both", "default-route": ["fd00:86::9"]}]"#;
    let result = call("ADD", Some(selection));
    let [same, ipv6] = of_both();
    assert_eq!(same, ipv4);
    assert_eq!(ipv6.lines().count(), 1, "{ipv6}");
    assert!(
        ipv6.starts_with("default via fd00:86::9 dev net1"),
        "{ipv6}"
    );
    // The runtime is told of the route that stays.
    let told: Vec<&Value> = result["routes"].as_array().unwrap().iter().collect();
    let told: Vec<&str> = told.iter().filter_map(|it| it["dst"].as_str()).collect();
    assert_eq!(told, ["0.0.0.0/0"]);
    assert_eq!(record("web")["status"][1]["gateway"], json!(["fd00:86::9"]));
    call("DEL", None);
    assert_eq!(node.inventory(), before);
}

#[test]
fn gateway_that_the_network_does_not_reach_fails_the_pod_and_leaves_nothing() {
    let Some((node, pod)) = start() else { return };
    let before = node.inventory();
    let selection = r#"[{"name": "lan", "default-route": ["10.99.0.9"]}]"#;
    let (_, error) = node.refuse(&pod, Some(selection));
    assert!(error.contains("shop/lan, default-route"), "{error}");
    assert_eq!(node.inventory(), before);
}

#[test]
fn record_has_the_status_of_all_networks() {
    let Some((node, pod)) = start() else { return };
    let selection = r#"[{"name": "lan"}, {"name": "wire", "interface": "wire0", "ips": ["10.89.0.5/24"],
        "mac": "02:00:00:00:00:07"}]"#;
    node.add(&pod, Some(selection));
    let record = record("web");
    assert!(!record.to_string().contains("pod-annotations"), "{record}");
    let status = record["status"].as_array().unwrap();
    let named = |it: &Value| {
        (
            it["name"].clone(),
            it["interface"].clone(),
            it["ips"][0].clone(),
        )
    };
    assert_eq!(
        status.iter().map(named).collect::<Vec<_>>(),
        [
            (json!("pods"), json!("eth0"), json!("10.87.0.2")),
            (json!("shop/lan"), json!("net1"), json!("10.88.0.2")),
            (json!("shop/wire"), json!("wire0"), json!("10.89.0.5")),
        ]
    );
    assert_eq!(status[0]["default"], true);
    assert_eq!(status[1].get("default"), None);
    assert_eq!(status[2]["mac"], "02:00:00:00:00:07");
    assert_eq!(status[2]["netqos.io/prefixes"], json!(["10.89.0.5/24"]));
    node.del(&pod);
}

/// The NAD names no device, so what the pod writes there is as good as what a NAD writes.
#[test]
fn device_that_a_pod_writes_must_be_permitted() {
    let Some((node, pod)) = start() else { return };
    let before = node.inventory();
    let config = json!({"cniVersion": "1.0.0", "type": "host-device"});
    let grant = |devices: &[&str]| AttachmentGrant {
        plugin_types: ["host-device".to_owned()].into(),
        devices: devices.iter().map(|it| (*it).to_owned()).collect(),
        ..AttachmentGrant::default()
    };
    let selection = r#"[{"name": "nic", "deviceID": "0000:04:00.1"}]"#;
    for devices in [&[][..], &["0000:03:*"]] {
        node.define_with("shop/nic", &config, grant(devices));
        let (_, error) = node.refuse(&pod, Some(selection));
        let expected = r#"device "0000:04:00.1" is not permitted"#;
        assert!(error.contains(expected), "{error}");
        assert_eq!(node.inventory(), before);
    }
    // It is not there; the plugin says so.
    node.define_with("shop/nic", &config, grant(&["0000:04:*"]));
    let (_, error) = node.refuse(&pod, Some(selection));
    assert!(!error.contains("permitted"), "{error}");
    assert_eq!(node.inventory(), before);
}
