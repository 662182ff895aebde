//! A network beside the default one: a bridge on the node, and `net1` in pods.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use netqos_core::BitRate;
use netqos_testkit::{Node, Pod};
use netqos_traffic::{Server, UdpReport, UdpTest};
use serde_json::{Value, json};

use super::stage::CACHE;

/// Its name, as a definition in namespace `games` and as a CNI network.
pub(crate) const NETWORK: &str = "storage";
/// The interface of pods on it.
pub(crate) const INTERFACE: &str = "net1";
const BRIDGE: &str = "storage0";

/// What of a frame of the tests is not payload, by IPv4 and by IPv6.
const HEADERS: [f64; 2] = [42.0, 62.0];
const PAYLOAD: f64 = 1400.0;

/// The definition, of a CNI plugin with this for its IPAM.
pub(crate) fn definition(ipam: Value) -> String {
    let config = json!({
        "cniVersion": "1.0.0", "name": NETWORK, "type": "bridge", "bridge": BRIDGE, "ipam": ipam,
    });
    json!({
        "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": NETWORK, "namespace": "games"},
        "spec": {"config": config.to_string()},
    })
    .to_string()
}

/// A policy for what `a` sends on the network, with these rules in YAML.
pub(crate) fn policy(rules: &str) -> String {
    format!(
        "apiVersion: k8s.ovn.org/v1alpha1\nkind: NetworkQoS\n\
         metadata: {{name: on-{NETWORK}, namespace: games}}\n\
         spec:\n  priority: 1\n  podSelector: {{matchLabels: {{app: a}}}}\n  \
         netAttachRefs: [{{kind: NetworkAttachmentDefinition, name: {NETWORK}}}]\n  egress: {rules}\n"
    )
}

/// The bridge, with these addresses of the node.
pub(crate) fn make(node: &Node, addresses: &[&str]) {
    node.bridge(BRIDGE).unwrap();
    for address in addresses {
        node.run("ip", &address_at(BRIDGE, address)).unwrap();
    }
}

/// Gives a pod its interface, without an address.
pub(crate) fn join(node: &Node, pod: &Pod) {
    let outside = pod.another_veth(node, INTERFACE).unwrap();
    node.run("ip", &["link", "set", &outside, "master", BRIDGE])
        .unwrap();
}

/// Gives the interface an address, with its prefix length.
pub(crate) fn add_address(node: &Node, pod: &Pod, address: &str) {
    pod.run(node, "ip", &address_at(INTERFACE, address))
        .unwrap();
}

fn address_at<'a>(link: &'a str, address: &'a str) -> Vec<&'a str> {
    let mut add = vec!["addr", "add", address, "dev", link];
    // It is to be used at once.
    add.extend(address.contains(':').then_some("nodad"));
    add
}

/// What a runtime remembers of the interface, with these addresses, each with its prefix length.
pub(crate) fn remember(pod: &Pod, addresses: &[String]) {
    remember_on(NETWORK, INTERFACE, pod, addresses);
}

/// The same of another network's interface.
pub(crate) fn remember_on(network: &str, interface: &str, pod: &Pod, addresses: &[String]) {
    let ips = addresses.iter().map(|address| json!({"address": address}));
    let text = json!({
        "kind": "cniCacheV1", "containerId": pod.name(), "config": "", "ifName": interface,
        "networkName": network, "netns": pod.netns(),
        "cniArgs": [["K8S_POD_NAMESPACE", "games"], ["K8S_POD_NAME", pod.name()]],
        "result": {"cniVersion": "1.1.0", "ips": ips.collect::<Vec<_>>()},
    });
    let file = format!("{network}-{}-{interface}", pod.name());
    fs::write(Path::new(CACHE).join(file), text.to_string()).unwrap();
}

/// What Multus writes of the interface into a pod's annotations.
pub(crate) fn annotations(addresses: &[String]) -> Value {
    let bare = addresses.iter().map(|it| it.split('/').next());
    let ips: Vec<_> = bare.collect();
    let status = json!([{"name": format!("games/{NETWORK}"), "interface": INTERFACE, "ips": ips}]);
    json!({
        "k8s.v1.cni.cncf.io/networks": NETWORK,
        "k8s.v1.cni.cncf.io/network-status": status.to_string(),
    })
}

/// Somebody in a pod to send to, at all of its addresses.
pub(crate) fn server(pod: &Pod) -> Server {
    let any: SocketAddr = "[::]:0".parse().unwrap();
    pod.inside(|| Server::bind(any)).unwrap().unwrap()
}

/// Sends at this rate from a pod for so many milliseconds.
pub(crate) fn send(
    from: &Pod,
    to: IpAddr,
    server: &Server,
    megabits: u64,
    millis: u64,
) -> UdpReport {
    let to = SocketAddr::new(to, server.local_addr().port());
    let rate = BitRate::from_bits_per_second(megabits * 1_000_000);
    let test = UdpTest {
        omit: Duration::ZERO,
        duration: Duration::from_millis(millis),
        size: PAYLOAD as usize,
        ..UdpTest::new(to, rate)
    };
    from.inside(|| test.run(|_| ())).unwrap().unwrap()
}

/// The marks with which datagrams arrive.
pub(crate) fn marks(from: &Pod, to: IpAddr, server: &Server) -> Vec<u8> {
    let report = send(from, to, server, 1, 150);
    let seen = report.dscp_seen.iter();
    seen.map(|seen| seen.dscp.into()).collect()
}

/// Asserts what arrives of so many Mbit/s of payload, in Mbit/s of frames. A busy machine sends less, as the sender
/// counts, and its qdiscs send later than they may.
pub(crate) fn assert_rate(from: &Pod, to: IpAddr, server: &Server, sends: u64, right: f64) {
    let report = send(from, to, server, sends, 1500);
    let headers = HEADERS[usize::from(to.is_ipv6())];
    let goodput = report.goodput.rate.bits_per_second() as f64;
    let share = goodput * (PAYLOAD + headers) / PAYLOAD / 1e6 / right;
    let sent = report.sent as f64 / (report.sent + report.held_back) as f64;
    assert!(
        (0.7 * sent..1.1).contains(&share),
        "{to}: {share:.3} of {right:.1} Mbit/s: {report}"
    );
}
