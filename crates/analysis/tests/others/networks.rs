//! The networks of a pod, as `describe` lists them.

use netqos_analysis::{DescribedPod, Extent, Snapshot, describe};
use netqos_core::ObjectName;
use serde_json::{Value, json};

use crate::objects::{object, pod};

const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";
const STATUS: &str = "k8s.v1.cni.cncf.io/network-status";
const DEFAULT_NETWORK: &str = "v1.multus-cni.io/default-network";

fn nad(name: &str) -> Value {
    let config = json!({"cniVersion": "1.0.0", "type": "bridge"}).to_string();
    object(
        "NetworkAttachmentDefinition",
        name,
        &json!({"spec": {"config": config}}),
    )
}

/// The pod `games/a` with these annotations, beside NADs `games/lan`, `games/wire` and `kube-system/other`.
fn described_with(annotations: &[(&str, &str)], limits: &[(&str, Extent)]) -> DescribedPod {
    let mut snapshot = Snapshot::of_cluster();
    let annotations: serde_json::Map<String, Value> = annotations
        .iter()
        .map(|(key, text)| ((*key).to_owned(), (*text).into()))
        .collect();
    let more = json!({"metadata": {"annotations": annotations}, "status": {"podIPs": [{"ip": "10.0.0.1"}]}});
    snapshot.put(&pod("games/a", "web", &more));
    for name in ["games/lan", "games/wire", "kube-system/other"] {
        snapshot.put(&nad(name));
    }
    for (kind, extent) in limits {
        snapshot.limit(kind, extent.clone());
    }
    describe(&snapshot, &ObjectName::new("games", "a")).unwrap()
}

fn described(annotations: &[(&str, &str)]) -> Value {
    serde_json::to_value(described_with(annotations, &[])).unwrap()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Network, interface, first address and state of each network.
fn short(pod: &Value) -> Vec<[&str; 4]> {
    let networks = pod["networks"].as_array().unwrap().iter();
    networks
        .map(|it| {
            let keys = [&it["network"], &it["interface"], &it["addresses"][0]];
            let [network, interface, address] = keys.map(text);
            [network, interface, address, text(&it["state"])]
        })
        .collect()
}

fn status(entries: &[(&str, &str, &str)]) -> String {
    let entries: Vec<Value> = entries
        .iter()
        .map(|(name, interface, address)| {
            let is_default = *interface == "eth0";
            json!({"name": name, "interface": interface, "ips": [address], "default": is_default, "dns": {}})
        })
        .collect();
    json!(entries).to_string()
}

#[test]
fn attachments_have_addresses_limits_and_state() {
    let selection = r#"[{"name": "lan", "bandwidth": {"ingressRate": 8000000, "egressRate": 1000000,
        "egressBurst": 80000}}, {"name": "wire", "interface": "w0"}]"#;
    let status = status(&[
        ("pods", "eth0", "10.0.0.1"),
        ("games/lan", "net1", "10.1.0.1"),
        ("games/wire", "w0", "10.2.0.1"),
    ]);
    let pod = described(&[(NETWORKS, selection), (STATUS, &status)]);
    assert_eq!(
        short(&pod),
        [
            ["default", "eth0", "10.0.0.1", "attached"],
            ["games/lan", "net1", "10.1.0.1", "attached"],
            ["games/wire", "w0", "10.2.0.1", "attached"],
        ]
    );
    assert_eq!(pod["networks"][0]["default"], true);
    assert_eq!(pod["networks"][1]["default"], false);
    assert_eq!(
        pod["networks"][1]["limits"],
        json!([
            {"direction": "ingress", "rate": 8_000_000, "by": "annotation"},
            {"direction": "egress", "rate": 1_000_000, "burst": 10_000, "by": "annotation"},
        ])
    );
    assert_eq!(pod["networks"][2].get("limits"), None);
    assert_eq!(pod.get("moreNetworks"), None);
}

#[test]
fn network_without_status_waits_or_has_no_nad() {
    let pod = described(&[(NETWORKS, "lan,gone@x0")]);
    assert_eq!(
        short(&pod),
        [
            ["default", "eth0", "10.0.0.1", "attached"],
            ["games/lan", "", "", "waiting"],
            ["games/gone", "x0", "", "nad-missing"],
        ]
    );
    let why = "no NetworkAttachmentDefinition games/gone exists";
    assert_eq!(pod["networks"][2]["why"], why);

    // NADs that were not read may exist.
    let limits = [("NetworkAttachmentDefinition", Extent::Nothing)];
    let pod = described_with(&[(NETWORKS, "lan,gone@x0")], &limits);
    let pod = serde_json::to_value(pod).unwrap();
    assert_eq!(short(&pod)[2], ["games/gone", "x0", "", "waiting"]);

    // Selected after the pod started.
    let status = status(&[("pods", "eth0", "10.0.0.1")]);
    let pod = described(&[(NETWORKS, "lan"), (STATUS, &status)]);
    assert_eq!(short(&pod)[1], ["games/lan", "", "", "waiting"]);
    assert!(
        text(&pod["networks"][1]["why"]).contains("does not name it"),
        "{pod}"
    );
}

#[test]
fn several_attachments_to_one_network_are_told_apart_by_their_interfaces() {
    let status = status(&[
        ("pods", "eth0", "10.0.0.1"),
        ("games/lan", "eth1", "10.1.0.1"),
        ("games/lan", "x1", "10.1.0.3"),
    ]);
    let pod = described(&[(NETWORKS, "lan,lan@x0,lan@x1"), (STATUS, &status)]);
    assert_eq!(
        short(&pod)[1..],
        [
            ["games/lan", "eth1", "10.1.0.1", "attached"],
            ["games/lan", "x0", "", "waiting"],
            ["games/lan", "x1", "10.1.0.3", "attached"],
        ]
    );
}

#[test]
fn network_in_place_of_default_one_is_default() {
    let status = status(&[("kube-system/other", "eth0", "10.0.0.1")]);
    let pod = described(&[(DEFAULT_NETWORK, "other"), (STATUS, &status)]);
    let network = ["kube-system/other", "eth0", "10.0.0.1", "attached"];
    assert_eq!(short(&pod), [network]);
    assert_eq!(pod["networks"][0]["default"], true);
}

#[test]
fn annotation_that_cannot_be_read_is_described_with_its_error() {
    let pod = described(&[(NETWORKS, "lan,,wire")]);
    assert_eq!(short(&pod)[1], ["", "", "", "unreadable"]);
    let why = text(&pod["networks"][1]["why"]);
    assert!(why.contains(NETWORKS) && why.contains("entry 2"), "{why}");

    let pod = described(&[(NETWORKS, "lan"), (STATUS, "{")]);
    let unreadable = [
        ["", "", "", "unreadable"],
        ["games/lan", "", "", "unreadable"],
    ];
    assert_eq!(short(&pod)[1..], unreadable);
    let why = text(&pod["networks"][1]["why"]);
    assert!(
        why.contains(STATUS) && why.contains("not a JSON list"),
        "{why}"
    );
}

/// Parsers repeat what they have read.
#[test]
fn problem_of_long_status_is_short() {
    let long = "x".repeat(100_000);
    for status in [
        json!([{"name": "games/lan", "ips": [long]}]),
        json!([{"name": "games/lan", "ips": long}]),
    ] {
        let pod = described(&[(NETWORKS, "lan"), (STATUS, &status.to_string())]);
        assert_eq!(short(&pod)[1][3], "unreadable");
        assert!(text(&pod["networks"][1]["why"]).contains("xxx"), "{pod}");
        assert!(pod.to_string().len() < 2_000, "{pod}");
    }
}

/// A tenant may write it.
#[test]
fn forged_status_is_listed_as_such_and_bounded() {
    let escape = "games/\u{1b}[31m";
    let mut entries = vec![
        json!({"name": "pods", "interface": "eth0", "default": true}),
        json!({
            "name": escape, "interface": "a\nb",
            "ips": (0..100).map(|it| format!("10.9.0.{it}")).collect::<Vec<_>>(),
        }),
    ];
    entries.extend((0..1_000).map(|it| json!({"name": format!("games/n{it}"), "interface": "x"})));
    let status = json!(entries).to_string();
    let pod = described(&[(NETWORKS, "lan"), (STATUS, &status)]);
    let networks = pod["networks"].as_array().unwrap();
    assert_eq!(networks.len(), 128);
    assert_eq!(pod["moreNetworks"], 1_003 - 128);
    // What the pod selects is not crowded out.
    assert_eq!(short(&pod)[1], ["games/lan", "", "", "waiting"]);
    let forged = &networks[2];
    assert_eq!(forged["addresses"].as_array().map(Vec::len), Some(16));
    assert_eq!(forged["moreAddresses"], 84);
    let is_plain = |it: &str| !it.is_empty() && !it.chars().any(char::is_control);
    assert!(
        is_plain(text(&forged["network"])) && is_plain(text(&forged["interface"])),
        "{forged}"
    );
}

#[test]
fn pod_of_the_network_of_its_node_has_no_networks() {
    let mut snapshot = Snapshot::of_cluster();
    snapshot.put(&pod(
        "games/a",
        "web",
        &json!({"spec": {"hostNetwork": true}}),
    ));
    let pod = describe(&snapshot, &ObjectName::new("games", "a")).unwrap();
    assert!(pod.networks.is_empty(), "{pod:?}");
}
