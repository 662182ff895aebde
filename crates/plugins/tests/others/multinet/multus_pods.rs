//! Pods that Multus attached, before this plugin took its place.
//!
//! `NETQOS_TEST_MULTUS` names a real Multus, which attaches them then.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use netqos_cni::runtime::{AttachmentRequest, NetworkConfigList, Runtime};
use netqos_testkit::{Call, Pod};
use serde_json::{Value, json};

use super::fixture::{bridge, node, start, ten_at_once};

pub const DIRECTORY: &str = "/var/lib/cni/multus";

/// The default network as a list, and the networks `lan` and `far` as configurations of a single plugin.
fn networks() -> [Value; 3] {
    let mut lan = bridge("data0", "10.88.0.0/24");
    lan["name"] = "lan".into();
    let pods = bridge("pods0", "10.87.0.0/24");
    [
        json!({"cniVersion": "1.0.0", "name": "pods", "plugins": [pods]}),
        lan,
        json!({"cniVersion": "1.0.0", "name": "far", "type": "macvlan", "master": "parent",
               "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.90.0.0/24"}]]}}),
    ]
}

/// Attaches a pod and keeps of it what Multus does.
pub fn attach(pod: &Pod) {
    attach_in(DIRECTORY, pod);
}

/// The same with another `cniDir`.
fn attach_in(directory: &str, pod: &Pod) {
    if let Some(multus) = std::env::var_os("NETQOS_TEST_MULTUS") {
        let config = json!({"cniVersion": "1.0.0", "name": "multus-cni-network", "type": "multus",
                            "binDir": "/usr/lib/cni", "cniDir": directory, "delegates": networks()});
        let call = Call::of(multus, "ADD", pod, &config);
        call.variable("CNI_PATH", "/usr/lib/cni").succeed().unwrap();
        return;
    }
    let plugins = PathBuf::from("/usr/lib/cni");
    let runtime = Runtime::new([plugins], directory);
    for (network, interface) in networks().iter().zip(["eth0", "net1", "net2"]) {
        let list = NetworkConfigList::parse_any(network.to_string().as_bytes()).unwrap();
        let call = AttachmentRequest::new(pod.name(), interface).in_netns(pod.netns());
        runtime.add(&list, &call).unwrap();
    }
    let [mut default, lan, far] = networks();
    // Of a `clusterNetwork` Multus keeps the keys that it knows.
    default["plugins"][0] = json!({"type": "bridge", "ipam": {"type": "host-local"}});
    let delegates = [default, lan, far].map(|network| {
        json!({"Conf": {}, "ConfList": {}, "Name": "", "IsFilterV4Gateway": false,
               "Bytes": base64(network.to_string().as_bytes())})
    });
    let file = Path::new(directory).join(pod.name());
    fs::write(file, json!(delegates).to_string()).unwrap();
}

/// Keeps what the runtime does of a pod: a list that calls Multus, which is gone.
pub fn keep_of_runtime(pod: &Pod, directory: &str) {
    fs::create_dir_all("/var/lib/cni/results").unwrap();
    let list = json!({"cniVersion": "1.0.0", "name": "multus-cni-network",
                      "plugins": [{"type": "multus", "cniDir": directory}]});
    let result = json!({
        "kind": "cniCacheV1", "containerId": pod.name(), "ifName": "eth0", "networkName": "multus-cni-network",
        "config": base64(list.to_string().as_bytes()), "result": {"cniVersion": "1.0.0"}
    });
    let path = format!(
        "/var/lib/cni/results/multus-cni-network-{}-eth0",
        pod.name()
    );
    fs::write(path, result.to_string()).unwrap();
}

/// The file of a pod's delegates.
fn file(pod: &Pod) -> PathBuf {
    PathBuf::from(DIRECTORY).join(pod.name())
}

pub fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |chunk: &[u8]| {
        let bits = (0..3).fold(0_usize, |bits, index| {
            bits << 8 | usize::from(chunk.get(index).copied().unwrap_or_default())
        });
        let digit = |index: usize| match index <= chunk.len() {
            true => char::from(DIGITS[bits >> (18 - 6 * index) & 63]),
            false => '=',
        };
        (0..4).map(digit).collect::<String>()
    };
    bytes.chunks(3).map(group).collect()
}

#[test]
fn del_releases_what_multus_attached() {
    let Some(node) = node() else { return };
    // Of what Multus keeps a power cut may leave a part.
    let damages: [fn(&Pod); 4] = [
        |_| {},
        |pod| fs::write(file(pod), "[{\"Conf\":").unwrap(),
        |pod| fs::remove_file(file(pod)).unwrap(),
        |_| fs::remove_dir_all(format!("{DIRECTORY}/results")).unwrap(),
    ];
    for (number, damage) in damages.into_iter().enumerate() {
        let pod = node.pod("web");
        let before = node.inventory();
        attach(&pod);
        assert!(node.inventory().len() > before.len());
        damage(&pod);
        keep_of_runtime(&pod, DIRECTORY);
        node.del(&pod);
        assert_eq!(node.inventory(), before, "damage {number}");
        node.remove(&pod);
    }
}

/// Multus names them as this plugin does.
#[test]
fn del_removes_device_information_files_of_multus_pod_alone() {
    let Some((node, pod)) = start() else { return };
    let directory = Path::new("/var/run/k8s.cni.cncf.io/devinfo/cni");
    fs::create_dir_all(directory).unwrap();
    attach(&pod);
    for name in ["shop-lan-web_net1", "shop-lan-webb_net1", "shop-web-x_net1"] {
        fs::write(directory.join(name), "{}").unwrap();
    }
    keep_of_runtime(&pod, DIRECTORY);
    node.del(&pod);
    let left = fs::read_dir(directory).unwrap().flatten();
    let mut left: Vec<_> = left.map(|it| it.file_name()).collect();
    left.sort();
    assert_eq!(left, ["shop-lan-webb_net1", "shop-web-x_net1"]);
}

/// Each is deleted by two calls at once and by a third afterwards, and some after their network namespaces went.
#[test]
fn fifty_pods_of_multus_are_released_without_leaks() {
    if std::env::var_os("NETQOS_TEST_MULTUS").is_none() {
        eprintln!("skipped: NETQOS_TEST_MULTUS names no Multus");
        return;
    }
    let Some(node) = node() else { return };
    let before = node.inventory();
    let pods: Vec<Pod> = (0..50).map(|it| node.pod(&format!("p{it}"))).collect();
    let began = Instant::now();
    ten_at_once(&pods, |pod| {
        attach(pod);
        keep_of_runtime(pod, DIRECTORY);
    });
    let made = began.elapsed();
    let addresses = |network: &str| node.node.files(format!("/var/lib/cni/networks/{network}"));
    for network in ["pods", "lan", "far"] {
        // Besides the last one, and the lock.
        assert_eq!(addresses(network).len(), 52, "{network}");
    }
    for pod in pods.iter().step_by(7) {
        node.remove(pod);
    }
    let call = |pod| node.call("DEL", pod, None, json!({}));
    let calls: Vec<Call> = pods.iter().flat_map(|pod| [call(pod), call(pod)]).collect();
    ten_at_once(&calls, |call| {
        call.succeed().unwrap();
    });
    node.assert_only(&before);
    let calls: Vec<Call> = pods.iter().map(call).collect();
    ten_at_once(&calls, |call| {
        call.succeed().unwrap();
    });
    eprintln!(
        "50 pods: made {made:?}, deleted three times {:?}",
        began.elapsed()
    );
    for (index, pod) in pods.into_iter().enumerate() {
        if index % 7 != 0 {
            node.node.remove_pod(pod).unwrap();
        }
    }
    assert_eq!(node.inventory(), before);
    assert_eq!(node.node.files("/run/netns"), [""; 0]);
}

#[test]
fn del_that_fails_keeps_what_multus_keeps() {
    let Some((node, pod)) = start() else { return };
    let before = node.inventory();
    attach(&pod);
    let without = json!({"pluginDirs": ["/nowhere"]});
    node.call("DEL", &pod, None, without).fail().unwrap();
    assert!(file(&pod).exists());
    node.del(&pod);
    assert_eq!(node.inventory(), before);
}

/// Its address would be given to the next pod.
#[test]
fn gc_of_a_network_keeps_addresses_of_pods_that_multus_attached() {
    let Some(node) = node() else { return };
    let old = node.pod("old");
    attach(&old);
    let new = node.pod("new");
    node.add(&new, Some("lan"));
    let before = node.inventory();
    let valid = json!({"cniVersion": "1.1.0", "cni.dev/valid-attachments": [
        {"containerID": "new", "ifname": "eth0"}, {"containerID": "old", "ifname": "eth0"},
    ]});
    node.call("GC", &new, None, valid).succeed().unwrap();
    assert_eq!(node.inventory(), before);
}

#[test]
fn gc_releases_pods_of_multus_that_are_gone() {
    let Some(node) = node() else { return };
    let new = node.pod("new");
    node.add(&new, None);
    let before = node.inventory();
    let gone = node.pod("gone");
    attach(&gone);
    node.remove(&gone);
    let valid = json!({"cniVersion": "1.1.0",
                       "cni.dev/valid-attachments": [{"containerID": "new", "ifname": "eth0"}]});
    node.call("GC", &new, None, valid).succeed().unwrap();
    node.assert_only(&before);
}

/// A runtime names the attachments to its network, and this pod is one of Multus' network.
#[test]
fn gc_keeps_pods_of_multus_that_the_runtime_does_not_name() {
    let Some(node) = node() else { return };
    let old = node.pod("old");
    attach(&old);
    let before = node.inventory();
    let valid = json!({"cniVersion": "1.1.0", "cni.dev/valid-attachments": []});
    node.call("GC", &old, None, valid).succeed().unwrap();
    assert_eq!(node.inventory(), before);
}

#[test]
fn del_finds_another_directory_of_multus() {
    let Some((node, pod)) = start() else { return };
    let before = node.inventory();
    attach_in("/var/lib/multus", &pod);
    keep_of_runtime(&pod, "/var/lib/multus");
    node.del(&pod);
    assert_eq!(node.inventory(), before);
}

/// The runtime's list calls a Multus that is gone.
#[test]
fn del_releases_the_default_network_if_all_of_multus_is_lost() {
    let Some((node, pod)) = start() else { return };
    attach(&pod);
    let addresses = |network: &str| {
        let files = node.inventory().into_iter();
        files
            .filter(|it| it.contains(&format!("cni/networks/{network}/")))
            .count()
    };
    assert_eq!((addresses("pods"), addresses("lan")), (1, 1));
    fs::remove_dir_all(DIRECTORY).unwrap();
    keep_of_runtime(&pod, DIRECTORY);
    node.del(&pod);
    assert_eq!((addresses("pods"), addresses("lan")), (0, 1));
    assert!(!node.inventory().iter().any(|it| it.contains("results/")));
}
