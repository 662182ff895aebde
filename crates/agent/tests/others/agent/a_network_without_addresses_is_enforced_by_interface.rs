use std::net::IpAddr;

use serde_json::json;

use super::second_network::{self as second, INTERFACE, NETWORK};
use super::stage::{self, Agent};

/// For everything, with a rate in kbit/s, and for a prefix.
const RULES: &str = "[{dscp: 30, bandwidth: {rate: 20000}},
    {dscp: 31, classifier: {to: [{ipBlock: {cidr: 172.16.5.0/24}}, {ipBlock: {cidr: 'fd05::/64'}}]}}]";
const RATE: f64 = 20.0;

/// Nobody but the pods knows which addresses they have: neither CNI's record nor their objects name
/// one on this network.
#[test]
fn whatever_addresses_pods_give_themselves() {
    let Some(node) = stage::node() else { return };
    second::make(&node, &[]);
    let (a, b) = stage::pods(&node);
    let server = second::server(&b);
    for pod in [&a, &b] {
        second::join(&node, pod);
        second::remember(pod, &[]);
        let object = stage::manifest(pod, second::annotations(&[]));
        stage::put(&format!("{}.json", pod.name()), &object);
    }
    stage::put("network.json", &second::definition(json!({})));
    stage::put("p.yaml", &second::policy(RULES));
    let _agent = Agent::start();
    assert_eq!(stage::status().problems, []);
    let pods = stage::status().pods;
    let [endpoint] = pods.as_slice() else {
        panic!("{pods:?}");
    };
    assert_eq!(endpoint.network, format!("games/{NETWORK}"));
    assert_eq!(
        (endpoint.interface.as_str(), &*endpoint.failing),
        (INTERFACE, "")
    );
    assert!(endpoint.addresses.is_empty(), "{endpoint:?}");

    let own: IpAddr = b.address().parse().unwrap();
    for (prefix, length, mark) in [
        ("172.16.4.", 24, 30),
        ("fd04::", 64, 30),
        // They change them, and nobody is told.
        ("172.16.5.", 24, 31),
        ("fd05::", 64, 31),
    ] {
        for (pod, number) in [(&a, 1), (&b, 2)] {
            second::add_address(&node, pod, &format!("{prefix}{number}/{length}"));
        }
        let to: IpAddr = format!("{prefix}2").parse().unwrap();
        assert_eq!(second::marks(&a, to, &server), [mark], "{to}");
        assert_eq!(second::marks(&a, own, &server), [0], "by eth0");
        if mark == 30 {
            second::assert_rate(&a, to, &server, 40, RATE);
        }
    }
    let counts = |dscp: u8| {
        let pod = stage::pod_status("a").unwrap();
        let mut rules = pod.rules.into_iter();
        rules.find(|rule| rule.dscp == Some(dscp)).unwrap().counts
    };
    assert!(counts(30).dropped_packets > 0, "{:?}", counts(30));
    assert!(counts(31).marked_packets > 0, "{:?}", counts(31));
}
