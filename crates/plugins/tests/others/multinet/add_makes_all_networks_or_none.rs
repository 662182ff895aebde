use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::thread;

use netqos_api::npwg::AttachmentGrant;
use netqos_testkit::Pod;
use serde_json::{Value, json};

use super::fixture::{MultinetNode, record, start};

/// Three networks: the default one, a bridge and a macvlan.
const THREE: &str = r#"[{"name": "lan"}, {"name": "wire", "interface": "wire0", "ips": ["10.89.0.5/24"],
    "mac": "02:00:00:00:00:07", "bandwidth": {"egressRate": 8000000}}]"#;

/// The interfaces of a pod with their first IPv4 addresses.
fn interfaces(node: &MultinetNode, pod: &Pod) -> Vec<(String, String)> {
    let text = node.in_pod(pod, "ip -j address show");
    let links: Vec<Value> = serde_json::from_str(&text).unwrap();
    let links = links.iter().filter(|it| it["ifname"] != "lo");
    let address = |it: &Value| {
        it["addr_info"][0]["local"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let mut found: Vec<_> = links
        .map(|it| (it["ifname"].as_str().unwrap().to_owned(), address(it)))
        .collect();
    found.sort();
    found
}

#[test]
fn default_network_is_first_list_of_runtime_that_does_not_call_plugin() {
    let Some((node, pod)) = start() else { return };
    let lists = Path::new("/run/lists");
    fs::create_dir_all(lists).unwrap();
    let write = |file: &str, name: &str, plugin: Value| {
        let list = json!({"cniVersion": "1.0.0", "name": name, "plugins": [plugin]});
        fs::write(lists.join(file), list.to_string()).unwrap();
    };
    write(
        "00-netqos.conflist",
        "ours",
        json!({"type": "netqos-multinet"}),
    );
    let more = json!({"defaultNetwork": null, "confDir": lists});
    let before = node.inventory();
    let (code, message) = node.call("ADD", &pod, None, more.clone()).fail().unwrap();
    assert_eq!(code, 11, "{message}");
    assert_eq!(node.inventory(), before);

    let ipam = json!({"type": "host-local", "ranges": [[{"subnet": "10.87.0.0/24"}]]});
    let bridge = json!({"type": "bridge", "bridge": "pods0", "ipam": ipam});
    write("10-pods.conflist", "pods", bridge);
    let added = node.call("ADD", &pod, None, more.clone()).succeed();
    assert_eq!(added.unwrap()["ips"][0]["address"], "10.87.0.2/24");
    // DEL goes by the record.
    fs::remove_dir_all(lists).unwrap();
    node.call("DEL", &pod, None, more).succeed().unwrap();
    assert_eq!(node.inventory(), before);
}

#[test]
fn pod_is_on_three_networks_and_nothing_is_left_after_del() {
    let Some((node, pod)) = start() else { return };
    let before = node.inventory();
    let result = node.add(&pod, Some(THREE));
    assert_eq!(
        result["ips"][0]["address"], "10.87.0.2/24",
        "of the default network"
    );
    let expected = [
        ("eth0", "10.87.0.2"),
        ("net1", "10.88.0.2"),
        ("wire0", "10.89.0.5"),
    ];
    let expected = expected.map(|(name, address)| (name.to_owned(), address.to_owned()));
    assert_eq!(interfaces(&node, &pod), expected);
    // From now on the pod can rename its links.
    let links = node.in_pod(&pod, "ip -j link show");
    let links: Vec<Value> = serde_json::from_str(&links).unwrap();
    for attachment in record(pod.name())["attachments"].as_array().unwrap() {
        let (name, ends) = (&attachment["interface"], &attachment["ends"]);
        let link = links.iter().find(|it| it["ifname"] == *name).unwrap();
        assert_eq!(ends["pod"], link["ifindex"], "{attachment}");
        assert_eq!(ends["host"].is_u64(), *name != "wire0", "{attachment}");
    }
    let link = node.in_pod(&pod, "ip -j link show wire0");
    assert!(link.contains("02:00:00:00:00:07"), "{link}");
    // No plugin of the network can limit: netqos does.
    let qdiscs = node.in_pod(&pod, "tc qdisc show dev wire0");
    assert!(
        qdiscs.contains("tbf") && qdiscs.contains("rate 8Mbit"),
        "{qdiscs}"
    );
    node.call("CHECK", &pod, Some(THREE), json!({}))
        .succeed()
        .unwrap();

    // The annotation may have changed since, and the agent have gone.
    node.hide_agent();
    node.del(&pod);
    assert_eq!(interfaces(&node, &pod), []);
    assert_eq!(node.inventory(), before);
    node.del(&pod);
}

#[test]
fn pod_without_selection_needs_no_agent() {
    let Some((node, pod)) = start() else { return };
    node.hide_agent();
    let before = node.inventory();
    for networks in [None, Some(""), Some("[]")] {
        node.add(&pod, networks);
        node.call("DEL", &pod, networks, json!({}))
            .succeed()
            .unwrap();
        assert_eq!(node.inventory(), before);
    }
    assert_eq!(node.asked(), 0);
}

/// An agent of another version, or what has taken its place.
#[test]
fn answer_that_cannot_be_read_is_error_11_and_leaves_nothing() {
    let Some((node, pod)) = start() else { return };
    let before = node.inventory();
    let answers = ["", "\n", "{\"ofVersion2\": {}}\n", "{\"nads\": 7}\n"];
    let listener = UnixListener::bind("/run/odd.sock").unwrap();
    let agent = thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let mut message = String::new();
            let reader = stream.try_clone().unwrap();
            BufReader::new(reader).read_line(&mut message).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    for answer in answers {
        let odd = json!({"socket": "/run/odd.sock"});
        let (code, error) = node.call("ADD", &pod, Some("lan"), odd).fail().unwrap();
        assert_eq!(code, 11, "{answer:?}: {error}");
        assert_eq!(node.inventory(), before, "{answer:?}");
    }
    agent.join().unwrap();
}

#[test]
fn failure_of_any_network_leaves_nothing() {
    let Some((node, pod)) = start() else { return };
    let broken = |config: Value| node.define("shop/broken", &config);
    let before = node.inventory();
    let lan = json!({"type": "bridge", "bridge": "data0"});
    for (config, networks, code, expected) in [
        (
            lan.clone(),
            "lan,missing",
            7,
            "no NetworkAttachmentDefinition shop/missing",
        ),
        (
            lan.clone(),
            "lan,other/net",
            7,
            "no NetworkAttachmentDefinition other/net",
        ),
        (
            lan.clone(),
            "lan,wire,,",
            7,
            "entry 3: no network between commas",
        ),
        (
            lan.clone(),
            "lan@eth0",
            7,
            "interface name \"eth0\" is taken",
        ),
        (
            lan.clone(),
            r#"[{"name": "lan", "ips": ["10.88.0.9"]}]"#,
            7,
            "no plugin of the configuration has that",
        ),
        (
            json!({"type": "no-such-plugin"}),
            "lan,broken",
            7,
            "does not know the keys of plugin no-such-plugin",
        ),
        (
            json!({"type": "netqos-multinet"}),
            "lan,broken",
            7,
            "would attach the pod's networks once more",
        ),
        (
            json!("text"),
            "lan,broken",
            7,
            "spec.config is not a network configuration in JSON",
        ),
        (
            json!({"plugins": []}),
            "lan,broken",
            7,
            "the list has no plugins",
        ),
        (
            json!({"type": "macvlan", "master": "absent"}),
            "lan,lan,broken",
            999,
            "shop/broken, interface net3: ",
        ),
        (
            json!({"type": "bridge", "bridge": "data0", "ipam": {"type": "host-local", "dataDir": "/etc"}}),
            "broken",
            7,
            "path \"/etc\" is not permitted",
        ),
    ] {
        broken(config.clone());
        let (found, message) = node.refuse(&pod, Some(networks));
        assert_eq!(found, code, "{networks}: {message}");
        assert!(message.contains(expected), "{networks}: {message}");
        assert_eq!(interfaces(&node, &pod), [], "{networks}");
        assert_eq!(node.inventory(), before, "{networks}: {message}");
        // As runtimes do it after an ADD that failed.
        let del = node.call("DEL", &pod, Some(networks), json!({}));
        del.succeed().unwrap();
    }
}

#[test]
fn agent_away_is_an_error_to_try_again() {
    let Some((node, pod)) = start() else { return };
    node.hide_agent();
    let before = node.inventory();
    let (code, message) = node.refuse(&pod, Some("lan"));
    assert_eq!(code, 11, "{message}");
    assert!(
        message.contains("cannot ask netqos-agent at /run/netqos/multinet.sock"),
        "{message}"
    );
    assert_eq!(node.inventory(), before);
}

#[test]
fn nad_that_no_policy_permits_is_not_executed() {
    let Some((node, pod)) = start() else { return };
    let config =
        json!({"cniVersion": "1.0.0", "type": "bridge", "bridge": "data0", "promiscMode": true});
    let grant = |masters: &[&str], keys: &[&str]| {
        let set = |texts: &[&str]| texts.iter().map(|it| (*it).to_owned()).collect();
        AttachmentGrant {
            plugin_types: set(&["bridge"]),
            masters: set(masters),
            host_keys: set(keys),
            ..AttachmentGrant::default()
        }
    };
    for (grant, expected) in [
        (
            AttachmentGrant::default(),
            "type: plugin type \"bridge\" is not permitted; plugins[0].bridge: interface \"data0\" is not permitted; \
             plugins[0].promiscMode: key \"bridge.promiscMode\" is not permitted (",
        ),
        (
            grant(&["data1"], &["bridge.promiscMode"]),
            "bridge: interface \"data0\" is not permitted",
        ),
        (
            grant(&["data0"], &[]),
            "promiscMode: key \"bridge.promiscMode\" is not permitted",
        ),
    ] {
        node.define_with("shop/lan", &config, grant);
        let (code, message) = node.refuse(&pod, Some("lan"));
        assert!(code == 7 && message.contains(expected), "{code} {message}");
        assert_eq!(interfaces(&node, &pod), []);
    }
    node.define_with(
        "shop/lan",
        &config,
        grant(&["data*"], &["bridge.promiscMode"]),
    );
    node.add(&pod, Some("lan"));
}

#[test]
fn invalid_annotation_is_ignored_where_the_configuration_says_so() {
    let Some((node, pod)) = start() else { return };
    let literal = json!({"specLiteral": true});
    node.call("ADD", &pod, Some("a,,b"), literal)
        .succeed()
        .unwrap();
    assert_eq!(interfaces(&node, &pod).len(), 1);

    // The other annotation counts.
    let both = node.pod("both");
    let annotations =
        json!({"k8s.v1.cni.cncf.io/networks": "lan", "v1.multus-cni.io/default-network": "a,,b"});
    let literal = json!({"specLiteral": true,
        "runtimeConfig": {"io.kubernetes.cri.pod-annotations": annotations}});
    node.call("ADD", &both, None, literal).succeed().unwrap();
    assert_eq!(interfaces(&node, &both).len(), 2);
}

#[test]
fn interfaces_are_named_as_kuryr_names_them() {
    let Some((node, pod)) = start() else { return };
    let names = json!({"interfaceNames": "eth"});
    node.call("ADD", &pod, Some("lan,lan"), names)
        .succeed()
        .unwrap();
    let found: Vec<String> = interfaces(&node, &pod)
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(found, ["eth0", "eth1", "eth2"]);
}
