//! What ADD prints.

use netqos_netlink::Socket;
use netqos_testkit::{Call, Pod};
use serde_json::{Value, json};

use super::calls::{
    VERSIONS, add, call, config, del, limited_to, node, original, previous, start, succeeded,
};
use super::kernel::on_host;

/// A name of the original's own tests, and the device name that is there.
const NETWORK: &str = "cni-plugin-bandwidth-test";
const IFB: &str = "bwpa8eda89404b7";

/// A result with fields that no version knows, at every level.
fn strange(pod: &Pod, version: &str) -> Value {
    let mut result = previous(pod, version);
    result["colour"] = "red".into();
    result["interfaces"][0]["speed"] = json!({"unit": "Mbit", "value": 10});
    result["ips"][0]["owner"] = Value::Null;
    result["routes"][0]["why"] = json!([1, 2.5, "x"]);
    result["dns"]["nameservers"] = json!(["10.96.0.10"]);
    result["dns"]["ttl"] = 30.into();
    result
}

#[test]
fn the_default_adds_nothing_and_loses_nothing() {
    let Some((_node, pod)) = start() else { return };
    for version in VERSIONS {
        let previous = strange(&pod, version);
        for limits in [
            json!({}),
            json!({"ingressRate": 8000, "ingressBurst": 80, "egressRate": 8000, "egressBurst": 80}),
        ] {
            let mut config = config(&pod, limits);
            config["cniVersion"] = version.into();
            config["prevResult"] = previous.clone();
            assert_eq!(add(&pod, &config), previous, "{version}");
            del(&pod, &config);
        }
    }
}

/// The way is chosen by the configuration, else by the environment.
#[test]
fn by_ifb_the_device_is_added_under_the_originals_name() {
    let Some(node) = node() else { return };
    let pod = node.pod("dummy").unwrap();
    for version in VERSIONS {
        let mut config = limited_to(
            &pod,
            0,
            8_000_000,
            json!({"cniVersion": version, "name": NETWORK}),
        );
        config["runtimeConfig"]["bandwidth"]["ingressBurst"] = 0.into();
        config["prevResult"] = strange(&pod, version);
        let by_config = {
            let mut config = config.clone();
            config["egress"] = "ifb".into();
            call("ADD", &pod, &config)
        };
        let by_environment = call("ADD", &pod, &config).variable("NETQOS_EGRESS", "ifb");
        for call in [by_config, by_environment] {
            let result = call.succeed().unwrap();
            let ifb = on_host(IFB);
            assert_eq!((ifb.kind.as_str(), ifb.mtu), ("ifb", 1500));
            let mac = Socket::open().unwrap().link_by_name(IFB).unwrap().mac();
            let mut wanted = config["prevResult"].clone();
            wanted["interfaces"].as_array_mut().unwrap().push(json!({
                "name": IFB, "mac": mac,
            }));
            assert_eq!(result, wanted, "{version}");
            del(&pod, &config);
        }
    }
}

/// The pod's way in the configuration beats the ifb in the environment.
#[test]
fn the_configuration_beats_the_environment() {
    let Some((_node, pod)) = start() else { return };
    let config = limited_to(&pod, 8_000_000, 8_000_000, json!({"egress": "pod"}));
    let call = call("ADD", &pod, &config).variable("NETQOS_EGRESS", "ifb");
    assert_eq!(call.succeed().unwrap(), config["prevResult"]);
}

/// To the byte, but for the hardware address, which the kernel draws, and the order of fields, in
/// which releases of the original differ.
#[test]
fn by_ifb_it_prints_what_the_original_prints() {
    let Some(original) = original() else { return };
    let Some(node) = node() else { return };
    let pod = node.pod("dummy").unwrap();
    for version in ["0.3.0", "0.3.1", "0.4.0", "1.0.0"] {
        for egress in [0, 16] {
            let mut config = config(
                &pod,
                json!({
                    "cniVersion": version, "name": NETWORK,
                    "ingressRate": 8000, "ingressBurst": 80,
                    "egressRate": egress, "egressBurst": egress,
                }),
            );
            config["prevResult"]["dns"] = json!({"nameservers": ["10.96.0.10"], "search": ["a"]});
            let its = printed(&Call::of(original, "ADD", &pod, &config));
            del(&pod, &config);
            config["egress"] = "ifb".into();
            let ours = printed(&call("ADD", &pod, &config));
            del(&pod, &config);
            assert_eq!(ours, its, "{version}");
        }
    }
}

/// What a call prints: its value without the address of the ifb, and its lines in the order of
/// their bytes.
fn printed(call: &Call) -> (Value, Vec<String>, usize) {
    let outcome = succeeded(call);
    let result: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let mac = result["interfaces"][2]["mac"].as_str().unwrap_or("none");
    let text = outcome.stdout.replace(mac, "MAC");
    let lines = text.lines().map(|line| line.trim_end_matches(','));
    let mut lines: Vec<_> = lines.map(str::to_owned).collect();
    lines.sort();
    (serde_json::from_str(&text).unwrap(), lines, text.len())
}
