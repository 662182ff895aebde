//! The answers of the plugins of containernetworking, of Debian and of `NETQOS_TEST_CNI_PLUGINS`, to what they refuse.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use netqos_cni::runtime::{AttachmentRequest, NetworkConfigList, Runtime};
use netqos_testkit::Node;
use serde_json::{Value, json};

const DEBIAN: &str = "/usr/lib/cni";

/// A plugin of addresses with one range, which more keys change.
fn host_local(more: Value) -> Value {
    let mut range = json!({"subnet": "10.205.28.0/24"});
    if let (Some(range), Some(more)) = (range.as_object_mut(), more.as_object()) {
        range.extend(more.clone());
    }
    json!({"type": "host-local", "ranges": [[range]]})
}

/// Configurations of plugins, each with a text of the answer to ADD or to DEL. `parent` is a link of the node.
fn refused() -> Vec<(Value, &'static str)> {
    let good = || host_local(json!({}));
    let of_type = |kind: &str, more: Value, ipam: Value| {
        let mut config = json!({"type": kind, "bridge": "refused0", "master": "parent", "vlanId": 7, "device": "absent"});
        if let (Some(config), Some(more)) = (config.as_object_mut(), more.as_object()) {
            config.insert("ipam".to_owned(), ipam);
            config.extend(more.clone());
        }
        config
    };
    let mut cases = vec![
        (
            of_type("vlan", json!({"vlanId": 5000}), good()),
            "invalid VLAN ID",
        ),
        (
            of_type("bridge", json!({"vlan": 5000}), good()),
            "invalid VLAN ID",
        ),
        (
            of_type("vlan", json!({"master": ""}), good()),
            "field is required",
        ),
        (
            of_type("host-device", json!({"device": ""}), json!({})),
            "specify either \"device\"",
        ),
        (
            of_type("host-device", json!({}), json!({})),
            "failed to find \"net1\"",
        ),
        (
            of_type("host-device", json!({"device": 5}), good()),
            "json: cannot unmarshal",
        ),
        (
            of_type(
                "bridge",
                json!({"hairpinMode": true, "promiscMode": true}),
                json!({"type": "whereabouts"}),
            ),
            "cannot set hairpin mode and promiscuous mode",
        ),
        (
            of_type(
                "ipvlan",
                json!({"mode": "x"}),
                json!({"type": "whereabouts"}),
            ),
            "unknown ipvlan mode",
        ),
        (
            of_type(
                "macvlan",
                json!({"mode": "x"}),
                json!({"type": "whereabouts"}),
            ),
            "unknown macvlan mode",
        ),
        (
            of_type("macvlan", json!({"master": "absent"}), good()),
            "Link not found",
        ),
        (
            of_type("vlan", json!({"master": "absent"}), good()),
            "Link not found",
        ),
        (
            of_type("tuning", json!({"mtu": "1500"}), json!({})),
            "json: cannot unmarshal",
        ),
        (
            of_type("portmap", json!({"snat": "x"}), json!({})),
            "json: cannot unmarshal",
        ),
    ];
    // Its ADD lacks the device, and its DEL refuses the addresses.
    let no_range = json!({"type": "host-local"});
    cases.push((of_type("host-device", json!({}), no_range), "no IP ranges"));
    for kind in ["bridge", "ptp", "macvlan", "ipvlan"] {
        cases.push((
            of_type(kind, json!({"mtu": "1500"}), good()),
            "json: cannot unmarshal",
        ));
    }
    // Not every kernel has links of ipvlan and vlan.
    for kind in ["bridge", "ptp", "macvlan"] {
        for (ipam, text) in [
            (
                host_local(json!({"rangeStart": "10.205.28.14.200"})),
                "invalid IP address: ",
            ),
            (
                host_local(json!({"rangeStart": "10.1.0.1"})),
                "invalid range set ",
            ),
            (
                host_local(json!({"subnet": "10.205.28.0/33"})),
                "invalid CIDR address: ",
            ),
            (json!({"type": "host-local"}), "no IP ranges specified"),
            (
                json!({"type": "whereabouts"}),
                "failed to find plugin \"whereabouts\"",
            ),
            // Its DEL reads no addresses.
            (
                json!({"type": "static", "addresses": [{"address": "10.1.1.1"}]}),
                "CIDR notation",
            ),
        ] {
            cases.push((of_type(kind, json!({}), ipam), text));
        }
    }
    cases
}

/// Debian 12 and Ubuntu have 1.1.1; `NETQOS_TEST_CNI_PLUGINS` has the newest ones.
#[test]
fn real_plugins_that_refuse_have_made_nothing() -> Result<()> {
    let newest = std::env::var("NETQOS_TEST_CNI_PLUGINS");
    if newest.is_err() {
        eprintln!("skipped: NETQOS_TEST_CNI_PLUGINS names no directory of CNI plugins");
    }
    if !Path::new(DEBIAN).join("bridge").is_file() {
        eprintln!("skipped: {DEBIAN}/bridge is missing (containernetworking-plugins)");
        return Ok(());
    }
    let Some(node) = Node::new()? else {
        return Ok(());
    };
    node.parent_link("parent")?;
    for dir in [Ok(DEBIAN.to_owned()), newest].into_iter().flatten() {
        let runtime = Runtime::new([&dir], "/var/lib/cni");
        for (number, (config, text)) in refused().into_iter().enumerate() {
            let pod = node.empty_pod(&format!("pod{number}"))?;
            let list = json!({"name": "net", "cniVersion": "1.0.0", "plugins": [config]});
            let list = NetworkConfigList::parse(list.to_string().as_bytes())?;
            let request = AttachmentRequest::new(pod.name(), "net1").in_netns(pod.netns());
            let error = runtime
                .add(&list, &request)
                .err()
                .context("ADD succeeded")?;
            let del = runtime.del(&list, &request).err().map(|it| it.to_string());
            let answers = format!("{dir}, {config}: {error}; {}", del.unwrap_or_default());
            ensure!(answers.contains(text), "no {text:?}: {answers}");
            ensure!(!error.may_have_left_something(), "{answers}");
            pod.remove(&node)?;
        }
    }
    Ok(())
}
