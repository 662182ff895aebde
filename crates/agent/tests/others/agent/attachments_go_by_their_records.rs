//! Attachments of `netqos-multinet`: its records decide about them, and no annotation that a tenant writes.

use std::fs;
use std::path::Path;

use netqos_agent::AttachmentStatus;
use netqos_core::{Attachment, BitRate, Limit, Limits};
use netqos_datapath::{AttachedPod, AttachedPods, HostLinks, LimitDatapath, Paths, Request};
use netqos_testkit::{Node, Pod};
use serde_json::{Value, json};

use super::second_network::{self as second, INTERFACE, NETWORK};
use super::stage::{self, Agent};
use super::the_nodes_lines_are_planned::{put_config, state};

const RECORDS: &str = "/var/lib/netqos/multinet/pods";
const MEGABIT: u64 = 1_000_000;

/// The record of a pod on the default network and on another, with this plugin of that network and this request of egress
/// in Mbit/s.
fn record(pod: &Pod, address: &str, plugin: &Value, megabits: Option<u64>) {
    let requested = match megabits {
        Some(megabits) => {
            json!({"bandwidth": {"egressRate": megabits * MEGABIT, "egressBurst": u32::MAX}})
        }
        None => json!({}),
    };
    let limiter = json!({"type": "bandwidth", "capabilities": {"bandwidth": true}});
    let attachment = |nad: Value, interface: &str, name: &str, plugins: Value, requested: Value| {
        json!({
            "driver": "cni", "nad": nad, "interface": interface, "args": [],
            "list": {"cniVersion": "1.0.0", "name": name, "plugins": plugins},
            "capabilityArgs": requested,
        })
    };
    let nad = format!("games/{NETWORK}");
    let record = json!({
        "containerId": pod.name(),
        "netns": pod.netns(),
        "pod": {"namespace": "games", "name": pod.name()},
        "attachments": [
            attachment(Value::Null, "eth0", "net", json!([{"type": "ptp"}]), json!({})),
            attachment(json!(nad), INTERFACE, NETWORK, json!([plugin, limiter]), requested),
        ],
        "made": 2,
        "status": [
            {"name": "net", "interface": "eth0", "ips": [pod.address()], "default": true, "dns": {}},
            {"name": nad, "interface": INTERFACE, "ips": [address], "dns": {}},
        ],
    });
    fs::create_dir_all(RECORDS).unwrap();
    let fresh = Path::new(RECORDS).join(format!("{}.new", pod.name()));
    fs::write(&fresh, record.to_string()).unwrap();
    fs::rename(
        fresh,
        Path::new(RECORDS).join(format!("{}.json", pod.name())),
    )
    .unwrap();
}

/// The work of the plugin `bandwidth` in an ADD of the attachment.
fn limit_by_plugin(pod: &Pod, megabits: u64) {
    let attachment = Attachment::try_new(NETWORK, pod.name(), INTERFACE).unwrap();
    let paths = Paths::from_variables(|_| None);
    let rate = BitRate::from_bits_per_second(megabits * MEGABIT);
    LimitDatapath::open(paths.clone())
        .unwrap()
        .apply(&Request {
            attachment: &attachment,
            netns: &pod.netns(),
            ends: None,
            host_links: HostLinks::Unknown,
            limits: Limits {
                ingress: None,
                egress: Some(Limit::of(rate)),
            },
            egress: Default::default(),
            hook: Default::default(),
            is_running: false,
        })
        .unwrap();
    let attached = AttachedPod {
        attachment,
        netns: pod.netns(),
        namespace: "games".to_owned(),
        name: pod.name().to_owned(),
        uid: None,
        addresses: [].into(),
        ends: None,
        has_annotations: true,
    };
    AttachedPods::new(paths.pods()).write(&attached).unwrap();
}

/// The rate in the kernel, of what the pod sends by the attachment.
fn has_rate(node: &Node, pod: &Pod, rate: &str) -> bool {
    let shown = pod.run(node, "tc", &["qdisc", "show", "dev", INTERFACE]);
    shown.unwrap().contains(&format!("rate {rate}"))
}

/// The egress limit of an interface in the agent's status, in Mbit/s, where it is programmed.
fn limit_of(pod: &str, interface: &str) -> Option<u64> {
    let pods = stage::status().pods;
    let mut pods = pods.iter();
    let found = pods.find(|it| it.name == pod && it.interface == interface)?;
    let limit = found.limits.iter().find(|it| it.direction == "egress")?;
    limit.in_force.then_some(limit.rate / MEGABIT)
}

fn quota(kilobits: u64) -> String {
    format!(
        "apiVersion: netqos.io/v1alpha1\nkind: NetworkQoSQuota\nmetadata: {{name: tenants}}\n\
         spec: {{maxRate: {kilobits}}}\n"
    )
}

#[test]
fn limit_of_an_attachment_stays_and_quotas_and_profiles_bound_it() {
    let Some(node) = stage::node() else { return };
    second::make(&node, &["192.168.77.254/24"]);
    let (a, _b) = stage::pods(&node);
    second::join(&node, &a);
    let plugin = json!({"type": "bridge"});
    record(&a, "192.168.77.1", &plugin, Some(50));
    limit_by_plugin(&a, 50);
    stage::put("a.json", &stage::manifest(&a, json!({})));
    stage::put("network.json", &second::definition(json!({})));
    let _agent = Agent::start();
    assert_eq!(
        limit_of("a", INTERFACE),
        Some(50),
        "{:?}",
        stage::status().pods
    );
    assert!(has_rate(&node, &a, "50Mbit"));
    assert_eq!(
        stage::status().reconciled.limits,
        0,
        "as the plugin made it"
    );

    let attachment = |interface: &str| {
        let attachments = stage::status().attachments;
        attachments.into_iter().find(|it| it.interface == interface)
    };
    let of_record = AttachmentStatus {
        namespace: "games".to_owned(),
        name: "a".to_owned(),
        container_id: a.name().to_owned(),
        network: format!("games/{NETWORK}"),
        interface: INTERFACE.to_owned(),
        addresses: vec!["192.168.77.1".to_owned()],
        ingress: None,
        egress: Some(50 * MEGABIT),
        driver: "cni".to_owned(),
        state: "attached".to_owned(),
    };
    assert_eq!(attachment(INTERFACE), Some(of_record.clone()));
    assert_eq!(attachment("eth0").unwrap().network, "net");

    stage::put("quota.yaml", &quota(10_000));
    assert!(stage::eventually(|| limit_of("a", INTERFACE) == Some(10)));
    assert!(has_rate(&node, &a, "10Mbit"));
    let bounded = AttachmentStatus {
        egress: Some(10 * MEGABIT),
        ..of_record
    };
    assert_eq!(attachment(INTERFACE), Some(bounded));
    let problems = stage::status().problems;
    let says = "its egress bandwidth on network games/storage is limited to 10 Mbit/s";
    assert!(
        problems.iter().any(|it| it.message.contains(says)),
        "{problems:?}"
    );
    fs::remove_file(Path::new(stage::MANIFESTS).join("quota.yaml")).unwrap();
    assert!(stage::eventually(|| limit_of("a", INTERFACE) == Some(50)));

    // Without a request of its own, the profile of its namespace limits it, as it does eth0.
    record(&a, "192.168.77.1", &plugin, None);
    assert!(stage::eventually(|| limit_of("a", INTERFACE).is_none()));
    assert!(!has_rate(&node, &a, "50Mbit"));
    stage::put(
        "profile.yaml",
        "apiVersion: netqos.io/v1alpha1\nkind: BandwidthProfile\n\
         metadata: {name: all, namespace: games}\nspec: {egress: {rate: 20M}}\n",
    );
    assert!(stage::eventually(|| {
        limit_of("a", INTERFACE) == Some(20) && limit_of("a", "eth0") == Some(20)
    }));
    assert!(has_rate(&node, &a, "20Mbit"));
}

/// The annotation `v1.multus-cni.io/default-network` has a bandwidth, which no annotation of the pod lifts.
#[test]
fn limit_that_a_pod_selects_for_its_default_network_holds_beside_its_annotations() {
    let Some(node) = stage::node() else { return };
    let (a, _b) = stage::pods(&node);
    let record = |is_selected: bool| {
        let plugins =
            json!([{"type": "ptp"}, {"type": "bandwidth", "capabilities": {"bandwidth": true}}]);
        let requested = json!({"egressRate": 50 * MEGABIT, "egressBurst": u32::MAX});
        let record = json!({
            "containerId": a.name(), "netns": a.netns(), "made": 1,
            "pod": {"namespace": "games", "name": a.name()},
            "attachments": [{
                "driver": "cni", "nad": "kube-system/fast", "interface": "eth0", "args": [],
                "list": {"cniVersion": "1.0.0", "name": "net", "plugins": plugins},
                "capabilityArgs": {"bandwidth": requested}, "selectsBandwidth": is_selected,
            }],
            "status": [{"name": "kube-system/fast", "interface": "eth0", "ips": [a.address()], "default": true, "dns": {}}],
        });
        fs::create_dir_all(RECORDS).unwrap();
        let fresh = Path::new(RECORDS).join("a.new");
        fs::write(&fresh, record.to_string()).unwrap();
        fs::rename(fresh, Path::new(RECORDS).join("a.json")).unwrap();
    };
    record(true);
    stage::put("a.json", &stage::manifest(&a, json!({})));
    let _agent = Agent::start();
    let holds = |megabits| stage::eventually(|| limit_of("a", "eth0") == megabits);
    assert!(holds(Some(50)), "{:?}", stage::status().pods);
    for (annotation, expected) in [("20M", 20), ("80M", 50)] {
        let annotations = json!({"kubernetes.io/egress-bandwidth": annotation});
        stage::put("a.json", &stage::manifest(&a, annotations));
        assert!(holds(Some(expected)), "{:?}", stage::status().pods);
    }
    stage::put("a.json", &stage::manifest(&a, json!({})));
    assert!(holds(Some(50)), "{:?}", stage::status().pods);
    // The runtime requests what annotations said when the pod started, and they say nothing now.
    record(false);
    assert!(holds(None), "{:?}", stage::status().pods);
}

/// `c` claims the address of `b` on each network by its annotations.
#[test]
fn forged_annotations_of_a_pod_with_a_record_give_it_no_address() {
    let Some(node) = stage::node() else { return };
    second::make(&node, &["192.168.77.254/24"]);
    let pods = ["a", "b", "c"].map(|name| node.pod(name).unwrap());
    let addresses = ["192.168.77.1", "192.168.77.2", "192.168.77.3"];
    for (pod, address) in pods.iter().zip(addresses) {
        second::join(&node, pod);
        second::add_address(&node, pod, &format!("{address}/24"));
        record(pod, address, &json!({"type": "bridge"}), None);
        stage::put(
            &format!("{}.json", pod.name()),
            &stage::manifest(pod, json!({})),
        );
    }
    let [a, b, c] = &pods;
    stage::put("network.json", &second::definition(json!({})));
    let to_c = "to: [{podSelector: {matchLabels: {app: c}}}]";
    stage::put(
        "second.yaml",
        &second::policy(&format!("[{{dscp: 20, classifier: {{{to_c}}}}}]")),
    );
    let rules = format!("[{{dscp: 10, classifier: {{{to_c}}}}}]");
    stage::put("first.yaml", &stage::policy("first", "a", &rules));
    let forged = json!([
        {"name": "net", "interface": "eth0", "ips": [b.address()], "default": true},
        {"name": "other", "interface": "eth0", "ips": [b.address()]},
        {"name": format!("games/{NETWORK}"), "interface": INTERFACE, "ips": [addresses[1]]},
        {"name": NETWORK, "interface": "net2", "ips": [addresses[1]]},
    ]);
    let networks = json!({
        "default": {"ip_addresses": [b.address()]},
        format!("games/{NETWORK}"): {"ip_addresses": [addresses[1]]},
        format!("games/{NETWORK}/1"): {"ip_addresses": [addresses[1]], "role": "primary"},
    });
    let annotations = json!({
        "k8s.v1.cni.cncf.io/network-status": forged.to_string(),
        "k8s.ovn.org/pod-networks": networks.to_string(),
    });
    stage::put("c.json", &stage::manifest(c, annotations));
    let _agent = Agent::start();
    let servers = [b, c].map(second::server);
    for (to, address, server, mark) in [
        (c, addresses[2], &servers[1], 20),
        (b, addresses[1], &servers[0], 0),
    ] {
        let found = second::marks(a, address.parse().unwrap(), server);
        assert_eq!(found, [mark], "{address} of {}", to.name());
        let first = to.address();
        let mark = mark / 2;
        let found = second::marks(a, first.parse().unwrap(), server);
        assert_eq!(found, [mark], "{first} of {}", to.name());
    }
}

/// Of a macvlan on an uplink the class has the address, and of one on another link, or in an annotation, it has not.
#[test]
fn class_of_a_pod_has_the_addresses_of_its_attachments_on_uplinks_alone() {
    let Some(node) = stage::node() else { return };
    stage::line(&node);
    node.run("ip", &["link", "add", "apart", "type", "bridge"])
        .unwrap();
    node.run("ip", &["link", "set", "apart", "up"]).unwrap();
    let (a, b) = stage::pods(&node);
    for (pod, parent, address) in [(&a, "up0", "192.0.2.7"), (&b, "apart", "192.0.2.8")] {
        let netns = pod.netns();
        let name = netns.file_name().unwrap().to_str().unwrap();
        node.run(
            "ip",
            &[
                "link", "add", "link", parent, "name", INTERFACE, "netns", name, "type", "macvlan",
            ],
        )
        .unwrap();
        record(
            pod,
            address,
            &json!({"type": "macvlan", "master": parent}),
            None,
        );
        let status = json!([
            {"name": format!("games/{NETWORK}"), "interface": INTERFACE, "ips": ["192.0.2.9"]},
            {"name": "net", "interface": "eth0", "ips": ["192.0.2.2"]},
        ]);
        let primary = json!({"ip_addresses": ["192.0.2.10"], "role": "primary"});
        let networks = json!({format!("games/{NETWORK}"): primary});
        let annotations = json!({
            "k8s.v1.cni.cncf.io/network-status": status.to_string(),
            "k8s.ovn.org/pod-networks": networks.to_string(),
        });
        stage::put(
            &format!("{}.json", pod.name()),
            &stage::manifest(pod, annotations),
        );
    }
    put_config(20, "1000M");
    let _agent = Agent::start();
    let addresses = |pod: &Pod| {
        let place = &state()["desiredLines"]["pods"][format!("games/{}", pod.name())]["place"];
        let mut found: Vec<String> = serde_json::from_value(place["addresses"].clone()).unwrap();
        found.sort();
        found
    };
    let mut of_a = vec![a.address(), "192.0.2.7".to_owned()];
    of_a.sort();
    assert_eq!(addresses(&a), of_a);
    assert_eq!(addresses(&b), [b.address()]);

    // One that is another pod's on the default network.
    record(
        &a,
        &b.address(),
        &json!({"type": "macvlan", "master": "up0"}),
        None,
    );
    assert!(stage::eventually(|| addresses(&a) == [a.address()]));
    assert_eq!(addresses(&b), [b.address()]);
}
