//! NADs without `spec.config`: a file of the node has the configuration, by its name.

use std::fs;
use std::path::Path;

use netqos_api::multinet::Nad;
use netqos_api::npwg::AttachmentGrant;
use netqos_testkit::{Call, Pod};
use serde_json::{Value, json};

use super::fixture::{MultinetNode, bridge, everything, nad, start};

const DIRECTORY: &str = "/run/networks";

fn write(file: &str, config: &Value) {
    fs::create_dir_all(DIRECTORY).unwrap();
    fs::write(Path::new(DIRECTORY).join(file), config.to_string()).unwrap();
}

fn list(name: &str, subnet: &str) -> Value {
    json!({"cniVersion": "1.0.0", "name": name, "plugins": [bridge("data0", subnet)]})
}

fn grant() -> AttachmentGrant {
    AttachmentGrant {
        plugin_types: ["bridge", "host-local"].map(str::to_owned).into(),
        masters: ["data0".to_owned()].into(),
        ..AttachmentGrant::default()
    }
}

fn add(node: &MultinetNode, pod: &Pod, networks: &str) -> Call {
    let call = node.call("ADD", pod, Some(networks), json!({}));
    call.variable("NETQOS_NETWORKS_DIR", DIRECTORY)
}

#[test]
fn nad_without_configuration_is_the_list_of_its_name_on_the_node() {
    let Some((node, pod)) = start() else { return };
    // A list precedes a single plugin of the name, whatever their files' names.
    let mut single = bridge("data0", "10.81.0.0/24");
    single["name"] = "disk".into();
    write("00-single.conf", &single);
    write("10-other.conflist", &list("other", "10.82.0.0/24"));
    write("20-list.conflist", &list("disk", "10.83.0.0/24"));
    single["name"] = "single".into();
    write("30-single.json", &single);
    node.define_nad("shop/disk", nad(None, grant()));
    node.define_nad("shop/single", nad(None, grant()));
    // As good as none.
    let empty = Nad {
        config: Some(" \n".to_owned()),
        ..nad(None, grant())
    };
    node.define_nad("shop/other", empty);
    let before = node.inventory();
    add(&node, &pod, "disk,other,single").succeed().unwrap();
    for (interface, address) in [
        ("net1", "10.83.0.2/24"),
        ("net2", "10.82.0.2/24"),
        ("net3", "10.81.0.2/24"),
    ] {
        let shown = node.in_pod(&pod, &format!("ip address show {interface}"));
        assert!(shown.contains(address), "{shown}");
    }
    // DEL goes by the record.
    fs::remove_dir_all(DIRECTORY).unwrap();
    node.del(&pod);
    assert_eq!(node.inventory(), before);
}

#[test]
fn configuration_on_the_node_is_judged_as_one_of_a_nad() {
    let Some((node, pod)) = start() else { return };
    write("10-disk.conflist", &list("disk", "10.83.0.0/24"));
    let before = node.inventory();
    let without_policy = Nad {
        policies: [].into(),
        ..nad(None, AttachmentGrant::default())
    };
    let without_master = AttachmentGrant {
        masters: [].into(),
        ..grant()
    };
    for (nad, expected) in [
        (without_policy, r#"plugin type "bridge" is not permitted"#),
        (
            nad(None, without_master),
            r#"plugins[0].bridge: interface "data0" is not permitted (not by NetworkAttachmentPolicy all)"#,
        ),
    ] {
        node.define_nad("shop/disk", nad);
        let (code, error) = add(&node, &pod, "disk").fail().unwrap();
        assert_eq!(code, 7, "{error}");
        assert!(error.contains(expected), "{error}");
        assert_eq!(node.inventory(), before);
    }
    // Nor does it lead back to this plugin.
    let plugin = json!({"type": "netqos-multinet"});
    let own = json!({"cniVersion": "1.0.0", "name": "disk", "plugins": [plugin]});
    write("10-disk.conflist", &own);
    node.define_nad("shop/disk", nad(None, everything()));
    let (_, error) = add(&node, &pod, "disk").fail().unwrap();
    assert!(
        error.contains("would attach the pod's networks once more"),
        "{error}"
    );
    assert_eq!(node.inventory(), before);
}

#[test]
fn nad_whose_configuration_is_nowhere_fails_the_pod() {
    let Some((node, pod)) = start() else { return };
    node.define_nad("shop/disk", nad(None, grant()));
    let before = node.inventory();
    for expected in [
        "no net configurations found in /run/networks",
        r#"no net configuration with name "disk" in /run/networks"#,
    ] {
        let (code, error) = add(&node, &pod, "disk").fail().unwrap();
        assert_eq!(code, 7, "{error}");
        let why = "NetworkAttachmentDefinition shop/disk: it has no spec.config, and on the node: ";
        assert!(error.contains(&format!("{why}{expected}")), "{error}");
        assert_eq!(node.inventory(), before);
        write("10-other.conflist", &list("other", "10.82.0.0/24"));
    }
}
