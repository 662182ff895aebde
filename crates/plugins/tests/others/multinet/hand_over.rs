//! The way back to Multus: `netqos install-plugin --multinet --remove` hands over the pods of this plugin.
//!
//! `NETQOS_TEST_MULTUS` names a real Multus, which releases them then.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};
use std::{fs, thread};

use netqos_api::multinet::PodRecord;
use netqos_cni::runtime::{AttachmentRequest, MultusDelegate, NetworkConfigList, Runtime};
use netqos_datapath::FileLock;
use netqos_testkit::{Pod, executable, run_killed_at};
use serde_json::{Map, Value, json};

use super::fixture::{BIN, MultinetNode, PLUGINS, ten_at_once, wait_until, write_script};
use super::multus_pods::{DIRECTORY, base64};

const LISTS: &str = "/run/net.d";
const RECORDS: &str = "/var/lib/netqos/multinet/pods";
/// The device information files.
const DEVICES: &str = "/var/run/k8s.cni.cncf.io/devinfo";
/// More system calls than a hand-over makes, and every so many are tried.
const MANY: usize = 5_000;
const STEP: usize = 23;

/// A node with the list of the plugin first, and one that calls Multus behind it.
fn node() -> Option<MultinetNode> {
    let node = MultinetNode::new()?;
    for directory in [BIN, LISTS, DIRECTORY] {
        fs::create_dir_all(directory).unwrap();
    }
    write_multus_list(json!({}));
    install();
    Some(node)
}

fn write_multus_list(more: Value) {
    let default =
        json!({"cniVersion": "1.0.0", "name": "pods", "type": "bridge", "bridge": "pods0"});
    let mut multus = json!({"type": "multus", "binDir": PLUGINS, "delegates": [default]});
    let more = more.as_object().unwrap().clone();
    multus.as_object_mut().unwrap().extend(more);
    let list = json!({"cniVersion": "1.0.0", "name": "multus-cni-network", "plugins": [multus]});
    fs::write(format!("{LISTS}/10-multus.conflist"), list.to_string()).unwrap();
}

fn netqos(words: &[&str]) -> Command {
    let mut command = Command::new(executable("netqos-cli", "netqos").unwrap());
    command.args([
        "install-plugin",
        "--multinet",
        "--to",
        BIN,
        "--conf-dir",
        LISTS,
    ]);
    command.args(words);
    command
}

/// Installs the plugin on a node without Multus, as it does not before a list of that, and brings the list back.
fn install() {
    let multus = format!("{LISTS}/10-multus.conflist");
    let aside = "/run/multus.conflist";
    fs::rename(&multus, aside).unwrap();
    let output = netqos(&["--from", env!("CARGO_BIN_EXE_netqos-multinet")]);
    let output = { output }.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    fs::rename(aside, multus).unwrap();
}

fn remove(more: &[&str]) -> Output {
    netqos(&[&["--remove"], more].concat()).output().unwrap()
}

fn removed() -> String {
    let output = remove(&[]);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Attaches a pod as a runtime does: it remembers the result.
fn add(node: &MultinetNode, pod: &Pod, networks: &str) {
    let result = node.call("ADD", pod, Some(networks), json!({}));
    keep_of_runtime(pod, &result.succeed().unwrap());
}

fn keep_of_runtime(pod: &Pod, result: &Value) {
    let path = format!("{LISTS}/00-netqos.conflist");
    let list = NetworkConfigList::from_file(Path::new(&path)).unwrap();
    let kept = json!({
        "kind": "cniCacheV1", "containerId": pod.name(), "ifName": "eth0", "networkName": list.name,
        "config": base64(&list.text), "netns": pod.netns(), "result": result,
    });
    fs::create_dir_all("/var/lib/cni/results").unwrap();
    let path = format!("/var/lib/cni/results/{}-{}-eth0", list.name, pod.name());
    fs::write(path, kept.to_string()).unwrap();
}

/// Deletes a pod as a runtime does once the list of the plugin is gone.
fn del_by_multus(pod: &Pod) {
    let runtime = Runtime::new([BIN, PLUGINS], "/var/lib/cni");
    let list = NetworkConfigList::load_default(Path::new(LISTS)).unwrap();
    assert_eq!(list.name, "multus-cni-network");
    let request = AttachmentRequest::new(pod.name(), "eth0")
        .in_netns(pod.netns())
        .with_arg("IgnoreUnknown", "1")
        .with_arg("K8S_POD_NAMESPACE", "shop")
        .with_arg("K8S_POD_NAME", pod.name());
    runtime.del(&list, &request).unwrap();
}

/// What is on the node, without the configuration that the command keeps for its next call.
fn inventory(node: &MultinetNode) -> Vec<String> {
    let mut found = node.inventory();
    found.retain(|it| !it.ends_with("/removed.conflist"));
    found
}

fn records() -> Vec<String> {
    let entries = fs::read_dir(RECORDS).unwrap();
    let names = entries.map(|it| it.unwrap().file_name().into_string().unwrap());
    names.filter(|it| it.ends_with(".json")).collect()
}

/// Some are deleted twice, and some after their network namespaces went.
#[test]
fn fifty_pods_handed_over_to_multus_are_released_without_leaks() {
    let Some(multus) = std::env::var_os("NETQOS_TEST_MULTUS") else {
        eprintln!("skipped: NETQOS_TEST_MULTUS names no Multus");
        return;
    };
    let Some(node) = node() else { return };
    symlink(multus, format!("{BIN}/multus")).unwrap();
    let ipam = json!({"type": "host-local", "ranges": [[{"subnet": "10.90.0.0/24"}]]});
    let far = json!({"cniVersion": "1.0.0", "type": "macvlan", "master": "parent", "ipam": ipam});
    // With a device, whose file Multus has to find.
    node.define("shop/far", &far);
    node.give_device("shop/far", "intel.com/sriov", "0000:03:02.1");
    let device = format!("{DEVICES}/dp/intel.com-sriov-0000:03:02.1-device.json");
    fs::create_dir_all(format!("{DEVICES}/dp")).unwrap();
    fs::write(device, "{}").unwrap();
    let of_devices = || fs::read_dir(format!("{DEVICES}/cni")).unwrap().count();
    let before = inventory(&node);
    let pods: Vec<Pod> = (0..50).map(|it| node.pod(&format!("p{it}"))).collect();
    let calls = pods.iter().enumerate().map(|(index, pod)| {
        let address = format!("10.89.0.{}/24", index + 1);
        let wire = json!({"name": "wire", "ips": [address]});
        let networks = json!([{"name": "lan"}, wire, {"name": "far"}]).to_string();
        (pod, node.call("ADD", pod, Some(&networks), json!({})))
    });
    let calls: Vec<_> = calls.collect();
    let began = Instant::now();
    ten_at_once(&calls, |(pod, call)| {
        keep_of_runtime(pod, &call.succeed().unwrap());
    });
    let made = began.elapsed();
    assert_eq!(of_devices(), pods.len());
    assert!(removed().contains("50 pods are handed over to Multus"));
    assert_eq!(records(), [""; 0]);
    assert!(!Path::new(BIN).join("netqos-multinet").exists());
    let handed_over = began.elapsed();
    for pod in pods.iter().step_by(7) {
        node.remove(pod);
    }
    ten_at_once(&pods, del_by_multus);
    for (index, pod) in pods.iter().enumerate() {
        if index % 7 != 0 {
            let links = node.in_pod(pod, "ip -o link");
            assert_eq!(links.lines().count(), 1, "{links}");
        }
    }
    wait_until(|| inventory(&node) == before);
    assert_eq!(inventory(&node), before);
    assert_eq!(of_devices(), 0);
    ten_at_once(&pods, del_by_multus);
    let deleted = began.elapsed();
    eprintln!("50 pods: made {made:?}, handed over {handed_over:?}, deleted twice {deleted:?}");
    for (index, pod) in pods.into_iter().enumerate() {
        if index % 7 != 0 {
            node.node.remove_pod(pod).unwrap();
        }
    }
    assert_eq!(inventory(&node), before);
    assert_eq!(node.node.files("/run/netns"), [""; 0]);
}

/// A plugin that is called with arguments that Multus does not keep: port mappings and a bandwidth.
#[test]
fn delegates_get_the_arguments_of_add() {
    let Some(node) = node() else { return };
    let capabilities = json!({"portMappings": true, "bandwidth": true});
    let log = "#!/bin/sh\nif [ $CNI_COMMAND = DEL ]; then cat > /run/del-$CNI_IFNAME; else cat > /run/add; \
               echo '{\"cniVersion\":\"1.0.0\"}'; fi\n";
    write_script("log", log);
    let config = json!({"cniVersion": "1.0.0", "type": "log", "capabilities": capabilities});
    node.define_by_digest("shop/log", &config);
    let pod = node.pod("web");
    let networks = json!([{"name": "log", "portMappings": [{"hostPort": 80, "containerPort": 8080}],
                           "bandwidth": {"ingressRate": 1000000}}]);
    let dirs = json!({"pluginDirs": [PLUGINS, BIN]});
    node.call("ADD", &pod, Some(&networks.to_string()), dirs)
        .succeed()
        .unwrap();
    removed();
    // As libcni calls it for Multus, with arguments of the pod that are not this attachment's.
    let delegates = MultusDelegate::read_all(Path::new(DIRECTORY), "web").unwrap();
    let list = NetworkConfigList::parse(&delegates[1].config).unwrap();
    let request = AttachmentRequest::new("web", "net1")
        .with_capability("portMappings", json!([{"hostPort": 443}]));
    Runtime::new([BIN], DIRECTORY).del(&list, &request).unwrap();
    let read = |path: &str| -> Value { serde_json::from_slice(&fs::read(path).unwrap()).unwrap() };
    let (add, del) = (read("/run/add"), read("/run/del-net1"));
    assert_eq!(
        add["runtimeConfig"]["portMappings"][0]["hostPort"], 80,
        "{add}"
    );
    assert_eq!(del["runtimeConfig"], add["runtimeConfig"]);
    assert_eq!(del["prevResult"]["cniVersion"], "1.0.0", "{del}");
}

/// By the plugin itself, which reads what Multus keeps.
#[test]
fn handed_over_pod_is_released_by_the_reader_of_pods_of_multus() {
    let Some(node) = node() else { return };
    // The daemon of Multus may have its directory in a configuration of its own.
    let keys = |directory: &str| (json!({"cniDir": directory}), vec![]);
    for (directory, (list, words)) in [
        (DIRECTORY, keys(DIRECTORY)),
        ("/var/lib/multus", keys("/var/lib/multus")),
        (
            "/var/lib/daemon",
            (json!({}), vec!["--multus-dir", "/var/lib/daemon"]),
        ),
    ] {
        fs::create_dir_all(directory).unwrap();
        write_multus_list(list);
        install();
        let before = inventory(&node);
        let pod = node.pod("web");
        add(&node, &pod, "lan,lan");
        let said = String::from_utf8(remove(&words).stdout).unwrap();
        assert!(said.contains(&format!("{directory}: 1 pods are handed over")));
        assert_eq!(records(), [""; 0]);
        assert!(Path::new(directory).join("web").exists());
        // The runtime remembers it as one of Multus.
        assert!(fs::metadata("/var/lib/cni/results/multus-cni-network-web-eth0").is_ok());
        node.del(&pod);
        assert_eq!(inventory(&node), before);
        node.remove(&pod);
    }
}

/// The recorded file is of Multus 4.3.0, for a pod on a list and on a configuration of a single plugin.
#[test]
fn delegates_have_the_form_of_multus() {
    let Some(node) = node() else { return };
    let pod = node.pod("web");
    add(&node, &pod, "lan");
    removed();
    let recorded: Value = serde_json::from_str(include_str!("recorded/multus-4.3.0.json")).unwrap();
    let text = fs::read(Path::new(DIRECTORY).join("web")).unwrap();
    let written: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(written.as_array().unwrap().len(), 2);
    let form = |value: &Value| std::mem::discriminant(value);
    let of_list = &recorded[0];
    for (index, delegate) in written.as_array().unwrap().iter().enumerate() {
        for (key, value) in delegate.as_object().unwrap() {
            let known = match key.as_str() {
                "ifnameRequest" => &json!(""),
                key => &of_list[key],
            };
            assert_eq!(form(value), form(known), "{key}: {value}");
        }
        // Multus takes one with plugins here for a list.
        assert_eq!(delegate["ConfList"]["plugins"][0]["type"], "bridge");
        assert_eq!(
            delegate["ConfList"]["cniVersion"],
            of_list["ConfList"]["cniVersion"]
        );
        assert_eq!(delegate["ifnameRequest"], ["eth0", "net1"][index]);
    }
    // The plugins' configurations are the same but for the names that libcni writes into them.
    let config = |delegates: &Value, index: usize| {
        let delegate: MultusDelegate = serde_json::from_value(delegates[index].clone()).unwrap();
        let list = NetworkConfigList::parse_any(&delegate.config).unwrap();
        let mut plugin: Map<String, Value> = list.plugins[0].raw.clone();
        plugin.retain(|key, _| !["name", "cniVersion", "isGateway"].contains(&&**key));
        (list.name, list.version, plugin)
    };
    for index in [0, 1] {
        assert_eq!(config(&written, index), config(&recorded, index));
    }
}

#[test]
fn hand_over_that_was_killed_leaves_nothing_behind_del_and_can_be_repeated() {
    let Some(node) = node() else { return };
    let before = inventory(&node);
    for (kills, nth) in (0..MANY).step_by(STEP).enumerate() {
        install();
        let pod = node.pod("web");
        add(&node, &pod, "lan");
        let was_killed = run_killed_at(&mut netqos(&["--remove"]), nth).unwrap();
        // Every other time the command is repeated before the pod goes.
        if kills % 2 == 0 {
            removed();
            assert_eq!(records(), [""; 0]);
            assert!(Path::new(DIRECTORY).join("web").exists());
        }
        node.del(&pod);
        let left: Vec<String> = { inventory(&node).into_iter() }
            .filter(|it| !before.contains(it))
            // The runtime removes it after DEL.
            .filter(|it| !it.ends_with("results/netqos-multinet-web-eth0"))
            .collect();
        assert_eq!(left, [""; 0], "killed before system call {nth}");
        let _ = fs::remove_file("/var/lib/cni/results/netqos-multinet-web-eth0");
        node.remove(&pod);
        if !was_killed {
            assert!(kills > 10, "{kills}");
            return;
        }
    }
    panic!("a hand-over makes more than {MANY} system calls");
}

#[test]
fn hand_over_waits_for_add() {
    let Some(node) = node() else { return };
    let slow = "#!/bin/sh\n[ $CNI_COMMAND = ADD ] && sleep 2\nexec /usr/lib/cni/bridge\n";
    write_script("slow", slow);
    let pod = node.pod("web");
    let plugin = json!({"type": "slow", "bridge": "pods0"});
    let default = json!({"cniVersion": "1.0.0", "name": "pods", "plugins": [plugin]});
    let more = json!({"pluginDirs": [PLUGINS, BIN], "defaultNetwork": default});
    let call = node.call("ADD", &pod, None, more).start().unwrap();
    let end = Instant::now() + Duration::from_secs(10);
    while !Path::new(RECORDS).join("web.json").exists() && Instant::now() < end {
        thread::sleep(Duration::from_millis(5));
    }
    assert!(removed().contains("1 pods are handed over to Multus"));
    assert_eq!(call.finish().unwrap().code, Some(0));
    assert!(Path::new(DIRECTORY).join("web").exists());
}

#[test]
fn pod_whose_add_does_not_end_stays_with_netqos() {
    let Some(node) = node() else { return };
    let pod = node.pod("web");
    let lock = FileLock::wait(&Path::new(RECORDS).join("web.lock")).unwrap();
    let output = remove(&["--wait", "1"]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text.contains("container web (its ADD or DEL did not end in time)"),
        "{text}"
    );
    assert!(Path::new(BIN).join("netqos-multinet").exists());
    assert!(!Path::new(LISTS).join("00-netqos.conflist").exists());
    drop(lock);
    // The list is gone, and its ADD ends now.
    node.add(&pod, Some("lan"));
    assert!(removed().contains("1 pods are handed over to Multus"));
    assert!(!Path::new(BIN).join("netqos-multinet").exists());
}

/// Multus looks for plugins elsewhere.
#[test]
fn pod_whose_plugin_multus_does_not_find_stays_with_netqos() {
    let Some(node) = node() else { return };
    write_multus_list(json!({"binDir": "/run/empty"}));
    let before = inventory(&node);
    let pod = node.pod("web");
    add(&node, &pod, "lan");
    let output = remove(&[]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    let expected = "shop/web (Multus does not find plugin bridge in /run/empty and /run/bin)";
    assert!(text.contains(expected), "{text}");
    assert_eq!(records(), ["web.json"]);
    assert!(Path::new(BIN).join("netqos-multinet").exists());
    // Its network namespace goes, and the next call releases it.
    symlink("/usr/lib/cni/bridge", format!("{BIN}/bridge")).unwrap();
    symlink("/usr/lib/cni/host-local", format!("{BIN}/host-local")).unwrap();
    node.remove(&pod);
    removed();
    fs::remove_file("/var/lib/cni/results/netqos-multinet-web-eth0").unwrap();
    let end = Instant::now() + Duration::from_secs(10);
    while inventory(&node) != before && Instant::now() < end {
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(inventory(&node), before);
}

#[test]
fn pod_with_a_record_that_cannot_be_read_stays_with_netqos() {
    let Some(node) = node() else { return };
    let pod = node.pod("web");
    add(&node, &pod, "lan");
    let path = Path::new(RECORDS).join("web.json");
    let whole = fs::read(&path).unwrap();
    fs::write(&path, "{\"containerId\": \"we").unwrap();
    let output = remove(&[]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text.contains("shop/web (its record cannot be read"),
        "{text}"
    );
    assert!(!Path::new(DIRECTORY).join("web").exists());
    assert!(Path::new(BIN).join("netqos-multinet").exists());
    // Of half an ADD.
    let mut record: PodRecord = serde_json::from_slice(&whole).unwrap();
    record.made = 1;
    fs::write(&path, serde_json::to_vec(&record).unwrap()).unwrap();
    let text = String::from_utf8(remove(&[]).stderr).unwrap();
    assert!(
        text.contains("shop/web (its ADD did not make all attachments)"),
        "{text}"
    );
    record.made = 2;
    record.attachments[1].driver = "neutron".to_owned();
    fs::write(&path, serde_json::to_vec(&record).unwrap()).unwrap();
    let text = String::from_utf8(remove(&[]).stderr).unwrap();
    assert!(
        text.contains("shop/web (interface net1 is of driver \"neutron\""),
        "{text}"
    );
    fs::write(&path, whole).unwrap();
    assert!(removed().contains("1 pods are handed over to Multus"));
}
