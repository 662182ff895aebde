//! Device information files: from the device plugin to the attachment's plugins and `network-status`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use netqos_testkit::Pod;
use serde_json::{Value, json};

use super::fixture::{BIN, MultinetNode, everything, record, write_script};
use super::recorder;

const OF_DEVICE: &str =
    "/var/run/k8s.cni.cncf.io/devinfo/dp/intel.com-sriov-0000:03:02.1-device.json";
const OF_POD: &str = "/var/run/k8s.cni.cncf.io/devinfo/cni/shop-vf-web_net1";

/// A node with network `shop/vf`, to whose pods the kubelet gave a device.
fn node(keys: &Value) -> Option<MultinetNode> {
    let node = MultinetNode::new()?;
    recorder::install(&["default", "log"]);
    let mut plugin = json!({"type": "log", "capabilities": {"CNIDeviceInfoFile": true}});
    let keys = keys.as_object().unwrap().clone();
    plugin.as_object_mut().unwrap().extend(keys);
    let list = json!({"cniVersion": "1.0.0", "plugins": [plugin]});
    let grant = netqos_api::npwg::AttachmentGrant {
        digests: [netqos_api::npwg::digest(&list.to_string())].into(),
        ..everything()
    };
    for (name, resource) in [("shop/vf", "intel.com/sriov"), ("shop/up", "../sriov")] {
        node.define_with(name, &list, grant.clone());
        node.give_device(name, resource, "0000:03:02.1");
    }
    fs::create_dir_all(Path::new(OF_DEVICE).parent().unwrap()).unwrap();
    Some(node)
}

fn info() -> Value {
    json!({"type": "pci", "version": "1.1.0", "pci": {"pci-address": "0000:03:02.1"}})
}

fn call(node: &MultinetNode, command: &str, pod: &Pod) -> netqos_testkit::Call {
    let config = recorder::default_network("default", &json!({}));
    node.call(command, pod, Some("vf"), config)
}

/// `device-info` of the pod's second network.
fn described() -> Value {
    record("web")["status"][1]["device-info"].clone()
}

#[test]
fn device_info_reaches_plugin_and_network_status_and_goes_with_the_pod() {
    let Some(node) = node(&json!({})) else {
        return;
    };
    let pod = node.pod("web");
    fs::write(OF_DEVICE, info().to_string()).unwrap();
    call(&node, "ADD", &pod).succeed().unwrap();
    for command in ["ADD", "DEL"] {
        if command == "DEL" {
            assert!(Path::new(OF_POD).exists());
            call(&node, "DEL", &pod).succeed().unwrap();
        }
        let config = recorder::config(&format!("log {command} net1"));
        assert_eq!(config["runtimeConfig"]["CNIDeviceInfoFile"], OF_POD);
        if command == "ADD" {
            let copied: Value = serde_json::from_slice(&fs::read(OF_POD).unwrap()).unwrap();
            assert_eq!((copied, described()), (info(), info()));
        }
    }
    assert!(!Path::new(OF_POD).exists());
    assert!(Path::new(OF_DEVICE).exists());

    // After a reboot there is no file.
    call(&node, "ADD", &pod).succeed().unwrap();
    fs::remove_dir_all("/var/run/k8s.cni.cncf.io").unwrap();
    call(&node, "DEL", &pod).succeed().unwrap();
}

#[test]
fn device_info_of_plugin_precedes_that_of_device() {
    let Some(node) = node(&json!({})) else {
        return;
    };
    let pod = node.pod("web");
    fs::write(OF_DEVICE, info().to_string()).unwrap();
    let script = format!(
        "#!/bin/sh\n[ $CNI_COMMAND = ADD ] || exit 0\necho '{{\"type\":\"memif\"}}' > {OF_POD}\necho '{{\"cniVersion\":\"1.0.0\"}}'\n"
    );
    write_script("log", &script);
    call(&node, "ADD", &pod).succeed().unwrap();
    assert_eq!(described(), json!({"type": "memif"}));
    call(&node, "DEL", &pod).succeed().unwrap();
    assert!(!Path::new(OF_POD).exists());
}

#[test]
fn failed_and_killed_add_leave_no_device_info() {
    let Some(node) = node(&json!({"fails": true})) else {
        return;
    };
    let pod = node.pod("web");
    fs::write(OF_DEVICE, info().to_string()).unwrap();
    call(&node, "ADD", &pod).fail().unwrap();
    assert!(!Path::new(OF_POD).exists());
    // The plugin has not run.
    fs::remove_file(Path::new(BIN).join("log")).unwrap();
    call(&node, "ADD", &pod).fail().unwrap();
    assert!(!Path::new(OF_POD).exists());

    let script = "#!/bin/sh\n[ $CNI_COMMAND = ADD ] || exit 0\nkill -9 $PPID\n";
    write_script("log", script);
    let killed = call(&node, "ADD", &pod).run().unwrap();
    assert_ne!(killed.code, Some(0));
    assert!(Path::new(OF_POD).exists());
    call(&node, "DEL", &pod).succeed().unwrap();
    assert!(!Path::new(OF_POD).exists());
}

#[test]
fn broken_device_info_is_left_out() {
    let Some(node) = node(&json!({})) else {
        return;
    };
    let pod = node.pod("web");
    fs::write("/run/secret", "{\"a\": 1}").unwrap();
    let long = format!("{{\"a\": \"{}\"}}", "x".repeat(17 << 10));
    for content in [None, Some("{"), Some("[]"), Some(&*long)] {
        let _ = fs::remove_file(OF_DEVICE);
        match content {
            None => symlink("/run/secret", OF_DEVICE).unwrap(),
            Some(text) => fs::write(OF_DEVICE, text).unwrap(),
        }
        let outcome = call(&node, "ADD", &pod).run().unwrap();
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        assert!(outcome.stderr.contains("is left out"), "{outcome:?}");
        assert_eq!(described(), Value::Null);
        assert!(!Path::new(OF_POD).exists());
        call(&node, "DEL", &pod).succeed().unwrap();
    }
}

#[test]
fn resource_and_device_that_are_paths_are_refused() {
    let Some(node) = node(&json!({})) else {
        return;
    };
    let pod = node.pod("web");
    node.give_device("shop/vf", "intel.com/sriov", "../secret");
    for network in ["vf", "up"] {
        let config = recorder::default_network("default", &json!({}));
        let add = node.call("ADD", &pod, Some(network), config);
        let (code, error) = add.fail().unwrap();
        assert_eq!(code, 7, "{error}");
        assert!(error.contains("is a path"), "{error}");
    }
    assert_eq!(recorder::calls(), [""; 0]);
}

#[test]
fn gc_removes_device_info_of_a_sandbox_that_is_gone() {
    let Some(node) = node(&json!({})) else {
        return;
    };
    fs::write(OF_DEVICE, info().to_string()).unwrap();
    let pod = node.pod("web");
    call(&node, "ADD", &pod).succeed().unwrap();
    assert!(Path::new(OF_POD).exists());
    let other = node.pod("other");
    node.remove(&pod);
    let mut config = recorder::default_network("default", &json!({}));
    let none = json!({"cniVersion": "1.1.0", "cni.dev/valid-attachments": []});
    let none = none.as_object().unwrap().clone();
    config.as_object_mut().unwrap().extend(none);
    node.call("GC", &other, None, config).succeed().unwrap();
    assert!(!Path::new(OF_POD).exists());
}

#[test]
fn device_info_that_cannot_be_copied_fails_add() {
    let Some(node) = node(&json!({})) else {
        return;
    };
    fs::write(OF_DEVICE, info().to_string()).unwrap();
    let directory = Path::new(OF_POD).parent().unwrap();
    fs::write(directory, "").unwrap();
    let pod = node.pod("web");
    let before = node.inventory();
    let (_, error) = call(&node, "ADD", &pod).fail().unwrap();
    assert!(error.contains(OF_POD), "{error}");
    assert_eq!(node.inventory(), before);
    call(&node, "DEL", &pod).succeed().unwrap();

    fs::remove_file(directory).unwrap();
    call(&node, "ADD", &pod).succeed().unwrap();
}
