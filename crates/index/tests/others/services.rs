//! Virtual addresses, and what stands behind them.

use std::collections::BTreeSet;

use netqos_core::plan::{Backend, Packet, ServicePort};
use netqos_core::{NetworkKey, Protocol, Rule};
use netqos_index::{Change, Index};

use crate::Applied as _;
use crate::objects::{
    index, ip, local, mark, name, pod, policy, port, rule, selector, service, slice, tcp, to_pods,
};

const TCP: Protocol = Protocol::Tcp;
const UDP: Protocol = Protocol::Udp;

fn objects() -> Vec<Change> {
    let web = vec![to_pods(None, Some(selector(&[("app", "web")])))];
    let to_web = Rule {
        ports: vec![port(TCP, 8080)],
        ..rule(20, web)
    };
    let ports = [("http", TCP, 80), ("dns", UDP, 53), ("dns-tcp", TCP, 53)];
    let targets = [
        ("http", TCP, 8080),
        ("dns", UDP, 5353),
        ("dns-tcp", TCP, 5354),
    ];
    let addresses = ["10.96.0.1", "fd00:96::1"];
    let mut objects = vec![
        Change::Pod(pod("a/web1", &[("app", "web")], &["10.0.0.2", "fd00::2"])),
        Change::Pod(pod("a/web2", &[("app", "web")], &["10.0.0.3"])),
        Change::Service(service("a/front", &addresses, &ports)),
        Change::EndpointSlice(slice(
            "a/front-4",
            "front",
            &["10.0.0.2", "10.0.0.3"],
            &targets,
        )),
        Change::EndpointSlice(slice("a/front-6", "front", &["fd00::2"], &targets)),
        Change::Policy(policy("a/qos", 1, vec![to_web])),
    ];
    objects.extend(local("a/p", &[], "10.0.0.1"));
    objects
}

fn behind(index: &Index, address: &str, protocol: Protocol, port: u16) -> Vec<String> {
    let backends = index.plan().services.get(&ServicePort {
        address: ip(address),
        protocol,
        port,
    });
    let backends: BTreeSet<Backend> = backends.cloned().unwrap_or_default();
    let backends = backends.into_iter();
    backends
        .map(|Backend { address, port }| std::net::SocketAddr::new(address, port).to_string())
        .collect()
}

fn to_service(index: &Index, packet: Packet) -> Option<u8> {
    mark(index, "a/p", &NetworkKey::Default, packet)
}

#[test]
fn ports_are_joined_by_name_and_protocol_and_addresses_by_family() {
    let index = index(objects());
    for (address, protocol, port, backends) in [
        ("10.96.0.1", TCP, 80, vec!["10.0.0.2:8080", "10.0.0.3:8080"]),
        ("10.96.0.1", UDP, 53, vec!["10.0.0.2:5353", "10.0.0.3:5353"]),
        ("10.96.0.1", TCP, 53, vec!["10.0.0.2:5354", "10.0.0.3:5354"]),
        ("fd00:96::1", TCP, 80, vec!["[fd00::2]:8080"]),
        ("10.96.0.1", UDP, 80, vec![]),
    ] {
        assert_eq!(behind(&index, address, protocol, port), backends);
    }
}

#[test]
fn a_service_whose_backends_agree_counts_as_them() {
    let mut index = index(objects());
    for (packet, marked) in [
        (tcp("10.96.0.1", 80), Some(20)),
        (tcp("fd00:96::1", 80), Some(20)),
        (tcp("10.96.0.1", 53), None),
        (tcp("10.0.0.2", 8080), Some(20)),
        (tcp("10.0.0.2", 80), None),
    ] {
        assert_eq!(to_service(&index, packet), marked, "{packet:?}");
    }
    let db = pod("a/web2", &[("app", "db")], &["10.0.0.3"]);
    index.applied(Change::Pod(db));
    assert_eq!(
        to_service(&index, tcp("10.96.0.1", 80)),
        None,
        "they differ"
    );
}

#[test]
fn services_come_and_go_with_the_first_and_the_last_chain() {
    let mut index = index(objects());
    assert_eq!(index.plan().services.len(), 6);
    index.apply(Change::PolicyGone(name("a/qos")));
    assert_eq!(index.take_delta().services.len(), 6);
    assert!(index.plan().services.is_empty());

    // What changes meanwhile is not missed.
    index.apply(Change::EndpointSliceGone(name("a/front-6")));
    assert!(index.take_delta().is_empty());
    index.applied(Change::Policy(policy("a/qos", 1, vec![rule(1, vec![])])));
    assert_eq!(index.plan().services.len(), 3);
    index.applied(Change::ServiceGone(name("a/front")));
    assert!(index.plan().services.is_empty());
}
