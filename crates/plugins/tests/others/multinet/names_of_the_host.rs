//! Pods whose interfaces have the names of the host's, and plugin types that are paths.

use std::path::Path;

use netqos_api::npwg::{AttachmentGrant, digest};
use netqos_testkit::Pod;
use serde_json::json;

use super::fixture::{BIN, MultinetNode, PLUGINS, everything, node, start, write_script};

/// The host's links and their queues.
fn host(node: &MultinetNode) -> [String; 3] {
    let run = |program: &str, words: &[&str]| node.node.run(program, words).unwrap();
    [
        run("ip", &["-br", "link", "show", "parent"]),
        run("ip", &["-br", "address", "show", "parent"]),
        node.node.traffic_control("parent").unwrap(),
    ]
}

fn addresses(node: &MultinetNode, pod: &Pod) -> String {
    node.in_pod(pod, "ip -br address show parent")
}

/// `parent` is a link of the host.
#[test]
fn interface_with_name_of_host_link_is_made_in_the_pod_alone() {
    let Some(node) = node() else { return };
    let run = |program: &str, words: &[&str]| node.node.run(program, words).unwrap();
    run("ip", &["address", "add", "10.80.0.1/24", "dev", "parent"]);
    let tbf = [
        "qdisc", "add", "dev", "parent", "root", "tbf", "rate", "1gbit",
    ];
    run(
        "tc",
        &[&tbf[..], &["burst", "100kb", "latency", "50ms"]].concat(),
    );
    let (before, of_host) = (node.inventory(), host(&node));
    let limited =
        r#""interface": "parent", "bandwidth": {"ingressRate": 8000000, "egressRate": 8000000}"#;
    for (networks, address) in [
        ("lan@parent".to_owned(), "10.88.0."),
        (format!(r#"[{{"name": "lan", {limited}}}]"#), "10.88.0."),
        (
            format!(r#"[{{"name": "wire", "ips": ["10.89.0.5/24"], {limited}}}]"#),
            "10.89.0.5/24",
        ),
    ] {
        for is_rebooted in [false, true] {
            let pod = node.pod("web");
            node.add(&pod, Some(&networks));
            let found = addresses(&node, &pod);
            assert!(found.contains(address), "{networks}: {found}");
            assert_eq!(host(&node), of_host, "{networks}");
            let mut del = node.call("DEL", &pod, None, json!({}));
            if is_rebooted {
                node.remove(&pod);
                del = del.without("CNI_NETNS");
            }
            del.succeed().unwrap();
            assert_eq!(host(&node), of_host, "{networks}");
            node.assert_only(&before);
            if !is_rebooted {
                node.remove(&pod);
            }
        }
    }
}

/// No digest permits it, also not as an address plugin below a plugin that netqos knows.
#[test]
fn plugin_type_that_is_a_path_is_not_executed() {
    let Some((node, pod)) = start() else { return };
    write_script("evil", "#!/bin/sh\n: > /run/executed\n");
    let before = node.inventory();
    for kind in [
        format!("{BIN}/evil"),
        "../../../run/bin/evil".to_owned(),
        "./evil".to_owned(),
        "..".to_owned(),
        "evil\0".to_owned(),
    ] {
        let single = json!({"cniVersion": "1.0.0", "type": kind});
        let nested = json!({"cniVersion": "1.0.0", "type": "bridge", "bridge": "data0", "ipam": {"type": kind}});
        let list = json!({"cniVersion": "1.0.0", "plugins": [{"type": "bridge", "bridge": "data0"}, {"type": kind}]});
        for (config, path) in [
            (single, "plugins[0].type"),
            (nested, "plugins[0].ipam.type"),
            (list, "plugins[1].type"),
        ] {
            let grant = AttachmentGrant {
                host_paths: ["/".to_owned()].into(),
                digests: [digest(&config.to_string())].into(),
                ..everything()
            };
            node.define_with("shop/net", &config, grant);
            let more = json!({"pluginDirs": [BIN, PLUGINS], "hostPaths": ["/"]});
            let add = node.call("ADD", &pod, Some("net"), more);
            let (code, error) = add.fail().unwrap();
            assert_eq!(code, 7, "{error}");
            let expected = format!("{path}: not the name of a plugin");
            assert!(error.contains(&expected), "{config}: {error}");
            assert_eq!(node.inventory(), before);
        }
    }
    assert!(!Path::new("/run/executed").exists());
}
