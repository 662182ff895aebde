use super::*;
use serde_json::json;

#[test]
fn addresses_are_found_in_results_of_all_versions() {
    let set = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
    for (result, expected) in [
        (
            json!({
                "cniVersion": "1.1.0",
                "interfaces": [{"name": "veth1"}, {"name": "eth0"}, {"name": "net1"}],
                "ips": [
                    {"address": "10.1.0.2/24", "interface": 1},
                    {"address": "fd00::2/64", "interface": 1},
                    {"address": "10.2.0.2/24", "interface": 2},
                ],
            }),
            set(&["10.1.0.2", "fd00::2"]),
        ),
        (
            json!({"cniVersion": "0.4.0", "ips": [{"version": "4", "address": "10.1.0.2/24"}]}),
            set(&["10.1.0.2"]),
        ),
        (
            json!({"ip4": {"ip": "10.1.0.2/24"}, "ip6": {"ip": "fd00::2/64"}}),
            set(&["10.1.0.2", "fd00::2"]),
        ),
        (json!({"ips": [{"address": "nonsense"}, 7]}), set(&[])),
        (json!(null), set(&[])),
    ] {
        assert_eq!(addresses(&result, "eth0"), expected, "{result}");
    }
}

/// A cache with files for these containers of the pod `games/a`, in namespaces that are there
/// (this process's own) or not.
fn locator(containers: &[(&str, &str)]) -> (tempfile::TempDir, Locator) {
    let cache = tempfile::tempdir().unwrap();
    fs::create_dir(cache.path().join("results")).unwrap();
    for (container, netns) in containers {
        write(cache.path(), container, netns);
    }
    let locator = Locator::new(vec![cache.path().to_owned(), "/nowhere".into()]);
    (cache, locator)
}

fn write(cache: &Path, container: &str, netns: &str) {
    let text = json!({
        "kind": "cniCacheV1", "containerId": container, "config": "", "ifName": "eth0",
        "networkName": "net", "netns": netns,
        "cniArgs": [["IgnoreUnknown", "1"], ["K8S_POD_NAMESPACE", "games"],
                    ["K8S_POD_NAME", "a"], ["K8S_POD_UID", "u"]],
        "result": {"ips": [{"address": format!("10.1.0.{}/24", mark(container))}]},
    });
    let file = cache.join("results").join(format!("net-{container}-eth0"));
    fs::write(file, text.to_string()).unwrap();
    // File times have the grain of the kernel's tick.
    std::thread::sleep(std::time::Duration::from_millis(15));
}

/// A number for a container, by which its addresses end.
fn mark(container: &str) -> u8 {
    container.as_bytes()[0]
}

/// The containers that the pod's interfaces are of, and how many interfaces it has.
fn told(batch: &Batch) -> Vec<(Option<char>, usize)> {
    let container = |interfaces: &[LocalInterface]| {
        let address = *interfaces.first()?.addresses.first()?;
        Some(match address {
            IpAddr::V4(address) => address.octets()[3].into(),
            IpAddr::V6(address) => address.octets()[15].into(),
        })
    };
    let changes = batch.changes.iter().map(|change| match change {
        Change::Attachments { interfaces, .. } => (container(interfaces), interfaces.len()),
        other => panic!("{other:?}"),
    });
    changes.collect()
}

#[test]
fn the_youngest_sandbox_of_a_pod_counts() {
    // No interface of that name is in here, which is said, and where the pod is not.
    let (cache, mut locator) = locator(&[("z", "/proc/self/ns/net"), ("b", "/proc/self/ns/net")]);
    assert_eq!(told(&locator.look()), [(Some('b'), 1)]);
    assert_eq!(told(&locator.look()), []);
    write(cache.path(), "a", "/proc/self/ns/net");
    assert_eq!(told(&locator.look()), [(Some('a'), 1)]);
    fs::remove_file(cache.path().join("results/net-a-eth0")).unwrap();
    assert_eq!(told(&locator.look()), [(Some('b'), 1)]);
    fs::remove_dir_all(cache.path().join("results")).unwrap();
    assert_eq!(told(&locator.look()), [(None, 0)]);
}

/// A StatefulSet gives a pod's name to the next one.
#[test]
fn sandboxes_of_other_uids_are_other_pods() {
    let (cache, mut locator) = locator(&[("a", "/proc/self/ns/net")]);
    locator.look();
    let file = |container| cache.path().join(format!("results/net-{container}-eth0"));
    write(cache.path(), "b", "/proc/self/ns/net");
    let text = fs::read_to_string(file("b")).unwrap();
    fs::write(file("b"), text.replace("\"u\"", "\"next\"")).unwrap();
    let batch = locator.look();
    assert_eq!(told(&batch), [(Some('b'), 1)]);
    let Change::Attachments { uid, .. } = &batch.changes[0] else {
        panic!("{batch:?}");
    };
    assert_eq!(uid.as_deref(), Some("next"));
    fs::remove_file(file("a")).unwrap();
    let batch = locator.look();
    assert_eq!(told(&batch), [(None, 0)]);
    let Change::Attachments { uid, .. } = &batch.changes[0] else {
        panic!("{batch:?}");
    };
    assert_eq!(uid.as_deref(), Some("u"));
}

#[test]
fn the_youngest_is_the_one_that_came_last_whatever_the_clock_says() {
    let (cache, mut locator) = locator(&[("a", "/proc/self/ns/net")]);
    assert_eq!(told(&locator.look()), [(Some('a'), 1)]);
    // It was put back meanwhile.
    write(cache.path(), "b", "/proc/self/ns/net");
    let file = cache.path().join("results/net-b-eth0");
    let file = fs::File::options().append(true).open(file).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!(told(&locator.look()), [(Some('b'), 1)]);
    // The older one's is written again.
    write(cache.path(), "a", "/proc/self/ns/net");
    assert_eq!(told(&locator.look()), []);
}

#[cfg(feature = "daemon")]
#[test]
fn who_looks_over_it_sees_what_has_come_and_gone() {
    let (cache, mut locator) = locator(&[("a", "/proc/self/ns/net")]);
    assert_eq!(told(&locator.look_over()), [(Some('a'), 1)]);
    assert_eq!(told(&locator.look_over()), []);
    write(cache.path(), "b", "/proc/self/ns/net");
    assert_eq!(told(&locator.look_over()), [(Some('b'), 1)]);
    fs::remove_file(cache.path().join("results/net-b-eth0")).unwrap();
    assert_eq!(told(&locator.look_over()), [(Some('a'), 1)]);
    write(cache.path(), "a", "/run/netns/nowhere");
    assert_eq!(told(&locator.look_over()), [(None, 0)]);
}

#[test]
fn the_namespace_of_the_node_is_no_pods() {
    let (cache, mut locator) = locator(&[]);
    // An interface that is there.
    write(cache.path(), "a", "/proc/self/ns/net");
    let file = cache.path().join("results/net-a-eth0");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("\"eth0\"", "\"lo0\"")).unwrap();
    let batch = locator.look();
    let [Change::Attachments { interfaces, .. }] = &batch.changes[..] else {
        panic!("{batch:?}");
    };
    let Attach::Unsupported { reason } = &interfaces[0].attach else {
        panic!("{interfaces:?}");
    };
    assert!(reason.contains("of the node itself"), "{reason}");
}

#[test]
fn what_a_reboot_left_is_not_there() {
    let (_cache, mut locator) = locator(&[("old", "/run/netns/nowhere")]);
    let batch = locator.look();
    assert_eq!(told(&batch), []);
    assert_eq!(batch.problems, []);
}

#[test]
fn a_file_that_cannot_be_read_is_reported_and_stops_no_other() {
    let (cache, mut locator) = locator(&[("b", "/proc/self/ns/net")]);
    fs::write(cache.path().join("results/net-x-eth0"), "{").unwrap();
    let batch = locator.look();
    assert_eq!(told(&batch), [(Some('b'), 1)]);
    assert_eq!(batch.problems.len(), 1);
}

/// What the plugin wrote of an attachment of the pod `games/a`.
fn attached(folder: &Path, container: &str, ifname: &str, netns: &str) {
    let pod = AttachedPod {
        attachment: Attachment::try_new("net", container, ifname).unwrap(),
        netns: netns.into(),
        namespace: "games".to_owned(),
        name: "a".to_owned(),
        uid: Some("u".to_owned()),
        ends: None,
        addresses: [format!("fd00::{:x}", mark(container)).parse().unwrap()].into(),
        has_annotations: false,
    };
    AttachedPods::new(folder.to_owned()).write(&pod).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(15));
}

#[test]
fn what_the_plugin_wrote_goes_first_and_a_cache_tells_the_rest() {
    let here = "/proc/self/ns/net";
    let (cache, locator) = locator(&[]);
    let folder = cache.path().join("pods");
    let mut locator = locator.with_attached(folder.clone());
    assert_eq!(told(&locator.look()), []);
    attached(&folder, "a", "eth0", here);
    fs::write(folder.join("net:a:eth1.new"), "{").unwrap();
    locator.look_at(["net:a:eth1.new", "net:a:eth0.json"].map(|name| folder.join(name)));
    let batch = locator.batch();
    assert_eq!(
        (told(&batch), batch.problems.len()),
        (vec![(Some('a'), 1)], 0)
    );
    // The same, and another interface, by a cache.
    write(cache.path(), "a", here);
    attached(&folder, "a", "net1", here);
    let batch = locator.look();
    assert_eq!(told(&batch), [(Some('a'), 2)]);
    let [Change::Attachments { interfaces, .. }] = &batch.changes[..] else {
        panic!("{batch:?}");
    };
    let addresses: Vec<usize> = interfaces.iter().map(|it| it.addresses.len()).collect();
    assert_eq!(addresses, [2, 1]);
    // A sandbox that came later, by whomever it is told; and what is written of one that is gone.
    write(cache.path(), "b", here);
    attached(&folder, "c", "eth0", "/run/netns/nowhere");
    assert_eq!(told(&locator.look()), [(Some('b'), 1)]);
    // Heard of at once, in the order of their names.
    attached(&folder, "e", "eth0", here);
    attached(&folder, "d", "eth0", here);
    locator.look_at(["net:d:eth0.json", "net:e:eth0.json"].map(|name| folder.join(name)));
    assert_eq!(told(&locator.batch()), [(Some('d'), 1)]);
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!(told(&locator.look()), [(Some('b'), 1)]);
}

fn record(status: &serde_json::Value) -> String {
    let bandwidth = json!({"type": "bandwidth", "capabilities": {"bandwidth": true}});
    json!({
        "containerId": "z", "netns": "/proc/self/ns/net", "made": 2, "status": status,
        "pod": {"namespace": "games", "name": "a", "uid": "u"},
        "attachments": [
            {"driver": "cni", "nad": null, "interface": "eth0", "args": [], "list": {"name": "net", "plugins": []},
             "capabilityArgs": {}},
            {"driver": "cni", "nad": "shop/lan", "interface": "net1", "args": [],
             "list": {"name": "net", "plugins": [bandwidth]},
             "capabilityArgs": {"bandwidth": {"egressRate": 8_000_000, "egressBurst": u32::MAX}}},
        ],
    })
    .to_string()
}

#[test]
fn record_of_multinet_names_all_attachments_and_precedes_caches() {
    let (_cache, locator) = locator(&[("z", "/proc/self/ns/net")]);
    let directory = tempfile::tempdir().unwrap();
    let mut locator = locator.with_records(directory.path().to_owned());
    let path = directory.path().join("z.json");
    // Not all networks are made.
    fs::write(&path, record(&json!(null))).unwrap();
    assert_eq!(told(&locator.look()), [(Some('z'), 1)]);
    let status = json!([
        {"name": "net", "interface": "eth0", "ips": ["10.9.0.2"], "default": true, "dns": {}},
        {"name": "shop/lan", "interface": "net1", "ips": ["10.2.0.2"], "dns": {}},
    ]);
    fs::write(&path, record(&status)).unwrap();
    let batch = locator.look();
    let [Change::Attachments { interfaces, .. }] = &batch.changes[..] else {
        panic!("{:?}", batch.changes)
    };
    let found: Vec<_> = interfaces
        .iter()
        .map(|it| {
            (
                it.network.clone(),
                &*it.name,
                it.addresses.iter().next().unwrap().to_string(),
            )
        })
        .collect();
    let lan = NetworkName::Attachment(ObjectName::new("shop", "lan"));
    assert_eq!(
        found,
        [
            (NetworkName::Default, "eth0", "10.9.0.2".to_owned()),
            (lan, "net1", "10.2.0.2".to_owned()),
        ]
    );
    let limits = |index: usize| interfaces[index].recorded.unwrap().limits.egress;
    assert_eq!(limits(0), None);
    let rate = netqos_core::BitRate::from_bits_per_second(8_000_000);
    assert_eq!(limits(1).map(|it| it.rate), Some(rate));
    // One that the plugin has not written to its end.
    fs::write(directory.path().join("y.new"), "{").unwrap();
    fs::write(directory.path().join("x.json"), "{").unwrap();
    let problems = locator.look().problems;
    let of_record = problems
        .iter()
        .filter(|it| it.message.contains("netqos-multinet"));
    assert_eq!(of_record.count(), 1, "{problems:?}");
}

/// OVN-Kubernetes makes the interface of a primary network in the ADD of the default one.
#[test]
fn interface_of_a_primary_network_is_found_in_results_and_records() {
    let (cache, mut locator) = locator(&[]);
    let sandbox = "/proc/self/ns/net";
    let text = json!({
        "kind": "cniCacheV1", "containerId": "z", "config": "", "ifName": "eth0", "networkName": "ovn-kubernetes",
        "netns": sandbox, "cniArgs": [["K8S_POD_NAMESPACE", "games"], ["K8S_POD_NAME", "a"], ["K8S_POD_UID", "u"]],
        "result": {
            "interfaces": [{"name": "veth1"}, {"name": "eth0", "sandbox": sandbox}, {"name": "ovn-udn1", "sandbox": sandbox}],
            "ips": [{"address": "10.1.0.2/24", "interface": 1}, {"address": "172.16.0.2/24", "interface": 2}],
        },
    });
    fs::write(cache.path().join("results/ovn-z-eth0"), text.to_string()).unwrap();
    let found = |batch: Batch| -> Vec<(NetworkName, String)> {
        let [Change::Attachments { interfaces, .. }] = &batch.changes[..] else {
            panic!("{:?}", batch.changes)
        };
        let found = interfaces.iter().map(|it| {
            let addresses: Vec<String> = it.addresses.iter().map(ToString::to_string).collect();
            (it.network.clone(), addresses.join(" "))
        });
        found.collect()
    };
    let primary = |address: &str| (NetworkName::Primary(None), address.to_owned());
    let default = NetworkName::Cni("ovn-kubernetes".into());
    let expected = [(default, "10.1.0.2".to_owned()), primary("172.16.0.2")];
    assert_eq!(found(locator.look()), expected);

    let directory = tempfile::tempdir().unwrap();
    let mut locator = locator.with_records(directory.path().to_owned());
    let status = json!([
        {"name": "net", "interface": "eth0", "ips": ["10.9.0.2"], "dns": {}},
        {"name": "net", "interface": "ovn-udn1", "ips": ["172.16.0.9"], "default": true, "dns": {}},
        {"name": "shop/lan", "interface": "net1", "ips": ["10.2.0.2"], "dns": {}},
    ]);
    fs::write(directory.path().join("z.json"), record(&status)).unwrap();
    let found = found(locator.look());
    assert_eq!(found.len(), 3);
    assert!(found.contains(&primary("172.16.0.9")), "{found:?}");
}

#[cfg(feature = "daemon")]
#[test]
fn network_status_is_that_of_the_record_that_came_last() {
    let (_cache, locator) = locator(&[]);
    let directory = tempfile::tempdir().unwrap();
    let mut locator = locator.with_records(directory.path().to_owned());
    let write = |name: &str, address: &str| {
        let status = json!([{"name": "net", "interface": "eth0", "ips": [address], "dns": {}}]);
        let path = directory.path().join(name);
        fs::write(&path, record(&status)).unwrap();
        path
    };
    let texts = |locator: &Locator| -> Vec<String> {
        let statuses = super::run::statuses_of(locator);
        statuses.values().map(|it| it.text.to_string()).collect()
    };
    write("b.json", "10.9.0.2");
    locator.look();
    assert!(texts(&locator)[0].contains("10.9.0.2"));
    // Another sandbox of the pod, by a clock that was put back.
    let path = write("a.json", "10.9.0.3");
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH)
        .unwrap();
    locator.look_at([path.clone()]);
    assert!(matches!(&texts(&locator)[..], [text] if text.contains("10.9.0.3")));
    fs::remove_file(&path).unwrap();
    locator.look_at([path]);
    assert!(texts(&locator)[0].contains("10.9.0.2"));
}
