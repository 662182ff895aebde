use std::net::IpAddr;

use netqos_testkit::{Node, Pod};
use netqos_traffic::Server;
use serde_json::{Value, json};

use super::second_network::{self as second, INTERFACE};
use super::stage::{self, Agent};

/// What goes to `b` and `c` on the second network, and on the default one.
const ON_SECOND: u8 = 20;
const ON_DEFAULT: u8 = 10;
const PEERS: &str =
    "to: [{podSelector: {matchExpressions: [{key: app, operator: In, values: [b, c]}]}}]";
/// Of the rule on the second network, in Mbit/s.
const RATE: f64 = 20.0;
/// What is sent, frames and all.
const UNLIMITED: f64 = 40.0 * 1442.0 / 1400.0;

/// A pod on both networks, with its addresses by IPv4 and IPv6.
struct Peer {
    pod: Pod,
    server: Server,
    first: [IpAddr; 2],
    second: [IpAddr; 2],
}

impl Peer {
    fn new(node: &Node, name: &str) -> Self {
        let pod = node.pod(name).unwrap();
        let first = [pod.address(), pod.address6()].map(|text| text.parse().unwrap());
        let number = name.as_bytes()[0] - b'a' + 1;
        let second = [format!("192.168.77.{number}"), format!("fd77::{number}")];
        second::join(node, &pod);
        for (address, length) in second.iter().zip([24, 64]) {
            second::add_address(node, &pod, &format!("{address}/{length}"));
        }
        Self {
            server: second::server(&pod),
            first,
            second: second.map(|text| text.parse().unwrap()),
            pod,
        }
    }

    /// Its addresses on the second network as CNI and Multus write them.
    fn on_second(&self) -> [String; 2] {
        let [v4, v6] = self.second;
        [format!("{v4}/24"), format!("{v6}/64")]
    }

    /// All of its addresses: by which interface one gets there, and the mark that one gets.
    fn ways(&self) -> [(IpAddr, &'static str, u8); 4] {
        let first = self.first.map(|address| (address, "eth0", ON_DEFAULT));
        let second = self.second.map(|address| (address, INTERFACE, ON_SECOND));
        [first[0], first[1], second[0], second[1]]
    }

    /// The marks with which datagrams from another arrive at this address of it.
    fn marks_of(&self, from: &Self, to: IpAddr) -> Vec<u8> {
        second::marks(&from.pod, to, &self.server)
    }
}

/// Asserts by which interface a pod sends to an address.
fn assert_goes_by(node: &Node, from: &Pod, to: IpAddr, interface: &str) {
    let route = from.run(node, "ip", &["route", "get", &to.to_string()]);
    let route = route.unwrap();
    assert!(route.contains(&format!("dev {interface} ")), "{route}");
}

/// `a` and `b` are on the node, and the runtime remembers both interfaces; `c` counts as one of
/// another node, of which the agent knows by the pod's object only.
#[test]
fn for_its_own_addresses_in_both_families() {
    let Some(node) = stage::node() else { return };
    second::make(&node, &["192.168.77.254/24", "fd77::fe/64"]);
    let peers = ["a", "b", "c"].map(|name| Peer::new(&node, name));
    let [a, b, c] = &peers;
    for peer in &peers {
        let on_second = peer.on_second();
        let text = stage::manifest(&peer.pod, second::annotations(&on_second));
        let mut object: Value = serde_json::from_str(&text).unwrap();
        if peer.pod.name() == "c" {
            object["spec"]["nodeName"] = json!("node2");
        } else {
            let on_first = peer.first.map(|address| format!("{address}/32"));
            second::remember_on("net", "eth0", &peer.pod, &on_first);
            second::remember(&peer.pod, &on_second);
        }
        let pod_ips = peer.first.map(|address| json!({"ip": address}));
        object["status"]["podIPs"] = json!(pod_ips);
        stage::put(&format!("{}.json", peer.pod.name()), &object.to_string());
    }
    let ipam = json!({"type": "host-local"});
    stage::put("network.json", &second::definition(ipam));
    let rules =
        format!("[{{dscp: {ON_SECOND}, bandwidth: {{rate: 20000}}, classifier: {{{PEERS}}}}}]");
    stage::put("second.yaml", &second::policy(&rules));
    let rules = format!("[{{dscp: {ON_DEFAULT}, classifier: {{{PEERS}}}}}]");
    stage::put("first.yaml", &stage::policy("on-default", "a", &rules));
    let _agent = Agent::start();
    assert_eq!(stage::status().problems, []);

    for to in [b, c] {
        for (address, interface, mark) in to.ways() {
            assert_goes_by(&node, &a.pod, address, interface);
            assert_eq!(to.marks_of(a, address), [mark], "{address} by {interface}");
        }
    }
    for (to, right) in [
        (b.second[0], RATE),
        (b.second[1], RATE),
        (b.first[0], UNLIMITED),
        (b.first[1], UNLIMITED),
    ] {
        second::assert_rate(&a.pod, to, &b.server, 40, right);
    }

    // The addresses that peers have on one network are nobody's on the other.
    for to in [b, c] {
        cross(&node, a, to);
        for (address, interface, _) in to.ways() {
            let other = if interface == "eth0" {
                INTERFACE
            } else {
                "eth0"
            };
            assert_goes_by(&node, &a.pod, address, other);
            assert_eq!(to.marks_of(a, address), [0], "{address} by {other}");
        }
    }
}

/// Lets a pod reach each address of another over the network that the address is not on.
fn cross(node: &Node, from: &Peer, to: &Peer) {
    let gateways = [from.pod.gateway(), from.pod.gateway6()];
    for (v6, gateway) in gateways.iter().enumerate() {
        let (first, second) = (to.first[v6].to_string(), to.second[v6].to_string());
        // The one on the second network is a neighbour's, as long as no route says otherwise.
        let by_second = ["route", "add", &first, "via", &second, "dev", INTERFACE];
        let by_first = ["route", "add", &second, "via", gateway, "dev", "eth0"];
        for route in [by_second, by_first] {
            from.pod.run(node, "ip", &route).unwrap();
        }
    }
}
