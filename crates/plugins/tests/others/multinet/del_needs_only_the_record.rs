use std::collections::BTreeSet;
use std::fs;

use netqos_testkit::Pod;
use serde_json::json;

use super::fixture::{node, start};

#[test]
fn del_after_a_reboot_removes_everything() {
    let Some((node, pod)) = start() else { return };
    let before = node.inventory();
    node.add(&pod, Some("lan,lan"));
    // A reboot empties /run, and the namespaces and links are gone.
    node.remove(&pod);
    fs::remove_dir_all("/run/netqos").unwrap();
    let del = node.call("DEL", &pod, None, json!({})).without("CNI_NETNS");
    del.succeed().unwrap();
    node.assert_only(&before);
}

#[test]
fn del_with_a_record_that_cannot_be_read_uses_the_results() {
    let Some(node) = node() else { return };
    for damage in ["", "{\"containerId\": \"we"] {
        let pod = node.pod("web");
        let before = node.inventory();
        node.add(&pod, Some("lan"));
        let record = "/var/lib/netqos/multinet/pods/web.json";
        assert!(fs::metadata(record).is_ok());
        fs::write(record, damage).unwrap();
        node.del(&pod);
        assert_eq!(node.inventory(), before);
        node.remove(&pod);
    }
}

#[test]
fn del_that_fails_keeps_the_record_and_can_be_repeated() {
    let Some((node, pod)) = start() else { return };
    let before = node.inventory();
    node.refuse(&pod, Some("lan,wire"));
    node.add(&pod, Some("lan"));
    // The plugin of the first network is missing: the others are removed all the same.
    let without = json!({"pluginDirs": ["/nowhere"]});
    let (_, message) = node.call("DEL", &pod, None, without).fail().unwrap();
    for network in [
        "shop/lan, interface net1",
        "the default network, interface eth0",
    ] {
        assert!(message.contains(network), "{message}");
    }
    node.del(&pod);
    assert_eq!(node.inventory(), before);
}

/// The kubelet makes a pod of a name anew before the runtime has deleted the sandbox of the one before.
#[test]
fn late_del_of_an_older_sandbox_leaves_the_new_one() {
    let Some(node) = node() else { return };
    let call = |command: &str, pod: &Pod, networks: Option<&str>| {
        let id = pod.name();
        let args = format!(
            "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-0;K8S_POD_INFRA_CONTAINER_ID={id};K8S_POD_UID=u-{id}"
        );
        let call = node.call(command, pod, networks, json!({}));
        call.variable("CNI_ARGS", &args)
    };
    let before = node.inventory();
    let old = node.pod("old");
    call("ADD", &old, Some("lan,lan")).succeed().unwrap();
    let with_old = node.inventory();
    let new = node.pod("new");
    call("ADD", &new, Some("lan,lan")).succeed().unwrap();
    let is_new = |it: &String| !with_old.contains(it);
    let of_new: Vec<String> = { node.inventory().into_iter() }.filter(is_new).collect();
    // Without what the kernel does by and by: a link's state, and addresses of its own.
    let addresses = || node.in_pod(&new, "ip -o -4 address");
    let of_pod = addresses();
    // The old one as the runtime knows it, once with and once without its namespace, and once more.
    call("DEL", &old, None).succeed().unwrap();
    node.remove(&old);
    let again = call("DEL", &old, None).without("CNI_NETNS");
    again.succeed().unwrap();
    let expected = [&before[..], &of_new].concat();
    let expected: BTreeSet<String> = expected.into_iter().collect();
    assert_eq!(BTreeSet::from_iter(node.inventory()), expected);
    assert_eq!(addresses(), of_pod);
    call("CHECK", &new, None).succeed().unwrap();
    call("DEL", &new, None).succeed().unwrap();
    node.assert_only(&before);
}

#[test]
fn gc_removes_the_attachments_of_sandboxes_that_are_gone() {
    let Some(node) = node() else { return };
    let alive = node.pod("alive");
    node.add(&alive, Some("lan"));
    let before = node.inventory();
    let gone = node.pod("gone");
    node.add(&gone, Some("lan"));
    let valid = json!({"cniVersion": "1.1.0",
                       "cni.dev/valid-attachments": [{"containerID": "alive", "ifname": "eth0"}]});
    node.hide_agent();
    node.call("GC", &gone, None, valid).succeed().unwrap();
    assert_eq!(node.inventory(), before);
    node.check(&alive);
}

#[test]
fn record_and_result_of_each_network_are_synced_by_add() {
    let Some(node) = node() else { return };
    // A file and its directory: the record at the beginning; then for each network its result, and the record again.
    for (networks, expected) in [(None, 6), (Some("lan"), 10), (Some("lan,lan"), 14)] {
        let pod = node.pod("web");
        let add = node.call("ADD", &pod, networks, json!({}));
        assert_eq!(add.count_fsyncs().unwrap(), expected, "{networks:?}");
        let check = node.call("CHECK", &pod, networks, json!({}));
        check.succeed().unwrap();
        node.del(&pod);
        node.remove(&pod);
    }
}
