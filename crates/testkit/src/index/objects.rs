//! Objects in few words.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::Arc;

use netqos_core::objects::{
    AttachmentConfig, EndpointSlice, LocalInterface, Namespace, NetworkDefinition, NetworkName,
    Pod, PodAddresses, Service, ServicePortSpec,
};
use netqos_core::plan::{Attach, Interface, Packet};
use netqos_core::{
    Destination, Dscp, IpBlock, LabelSelector, Labels, Limits, Mode, NetworkChoice, NetworkKey,
    ObjectName, PeerSelector, PodId, Policy, PortMatch, Priority, Protocol, Requirement, Rule,
};
use netqos_index::{Change, Index};

/// The node of all tests.
pub const NODE: &str = "here";

pub fn name(text: &str) -> ObjectName {
    let (namespace, name) = text.split_once('/').unwrap();
    ObjectName::new(namespace, name)
}

pub fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub fn labels(pairs: &[(&str, &str)]) -> Labels {
    let own = |(key, value): &(&str, &str)| ((*key).into(), (*value).into());
    pairs.iter().map(own).collect()
}

pub fn selector(pairs: &[(&str, &str)]) -> LabelSelector {
    LabelSelector::new(
        pairs
            .iter()
            .map(|(key, value)| Requirement::equals(key, value)),
    )
}

pub fn attachment(text: &str) -> NetworkKey {
    NetworkKey::Attachment(name(text))
}

/// A pod somewhere else.
pub fn pod(text: &str, pairs: &[(&str, &str)], addresses: &[&str]) -> Pod {
    Pod {
        id: PodId {
            uid: format!("{text}-1").into(),
            name: name(text),
        },
        labels: labels(pairs),
        node: Some("there".into()),
        host_network: false,
        finished: false,
        starting: false,
        limits: Limits::default(),
        invalid_limits: None,
        network_annotations: None,
        config_hash: None,
        addresses: vec![on(NetworkName::Default, addresses)],
    }
}

pub fn on(network: NetworkName, addresses: &[&str]) -> PodAddresses {
    PodAddresses {
        network,
        interface: None,
        addresses: addresses.iter().map(|address| ip(address)).collect(),
    }
}

/// A pod of this node, with one interface on the default network.
pub fn local(text: &str, pairs: &[(&str, &str)], address: &str) -> [Change; 2] {
    let local = Pod {
        node: Some(NODE.into()),
        ..pod(text, pairs, &[])
    };
    let eth0 = interface("eth0", NetworkName::Default, &[address]);
    [Change::Pod(local), attached(text, vec![eth0])]
}

pub fn attached(pod: &str, interfaces: Vec<LocalInterface>) -> Change {
    Change::Attachments {
        pod: name(pod),
        uid: None,
        interfaces,
    }
}

pub fn interface(name: &str, network: NetworkName, addresses: &[&str]) -> LocalInterface {
    LocalInterface {
        recorded: None,
        network,
        name: name.into(),
        addresses: addresses.iter().map(|address| ip(address)).collect(),
        attach: Attach::HostVeth(Interface {
            container: "c".into(),
            network: "n".into(),
            name: name.into(),
            netns: "/run/netns/c".into(),
            ends: None,
        }),
    }
}

pub fn namespace(name: &str, pairs: &[(&str, &str)]) -> Change {
    Change::Namespace(Namespace {
        name: name.into(),
        labels: labels(pairs),
    })
}

pub fn definition(text: &str, cni_name: &str) -> NetworkDefinition {
    NetworkDefinition {
        name: name(text),
        labels: Labels::new(),
        cni_name: cni_name.into(),
        cluster_network: None,
        is_of_ovn: false,
        owner_uid: None,
        attachment: AttachmentConfig::default(),
        primary: None,
    }
}

/// A policy for all pods of its namespace on the default network.
pub fn policy(text: &str, priority: i64, rules: Vec<Rule>) -> Policy {
    Policy {
        name: name(text),
        priority: Priority::try_new(priority).unwrap(),
        networks: NetworkChoice::Default,
        pods: LabelSelector::everything(),
        rules,
    }
}

pub fn rule(dscp: u8, to: Vec<Destination>) -> Rule {
    Rule {
        to,
        ports: vec![],
        dscp: Dscp::try_new(dscp.into()).ok(),
        bandwidth: None,
        mode: Mode::Enforce,
    }
}

pub fn to_block(cidr: &str) -> Destination {
    Destination::Block(IpBlock::try_new(cidr.parse().unwrap(), vec![]).unwrap())
}

pub fn to_pods(namespaces: Option<LabelSelector>, pods: Option<LabelSelector>) -> Destination {
    Destination::Pods(PeerSelector { namespaces, pods })
}

pub fn port(protocol: Protocol, port: u16) -> PortMatch {
    PortMatch {
        protocol: Some(protocol),
        port: NonZeroU16::new(port),
    }
}

pub fn tcp(destination: &str, port: u16) -> Packet {
    Packet {
        destination: ip(destination),
        protocol: Some(Protocol::Tcp),
        port: Some(port),
    }
}

pub fn service(text: &str, addresses: &[&str], ports: &[(&str, Protocol, u16)]) -> Service {
    Service {
        name: name(text),
        addresses: addresses.iter().map(|address| ip(address)).collect(),
        ports: service_ports(ports),
    }
}

pub fn slice(
    text: &str,
    service: &str,
    addresses: &[&str],
    ports: &[(&str, Protocol, u16)],
) -> EndpointSlice {
    EndpointSlice {
        name: name(text),
        service: service.into(),
        ports: service_ports(ports),
        addresses: addresses.iter().map(|address| ip(address)).collect(),
    }
}

fn service_ports(ports: &[(&str, Protocol, u16)]) -> Vec<ServicePortSpec> {
    let spec = |(name, protocol, port): &(&str, Protocol, u16)| ServicePortSpec {
        name: Arc::from(*name),
        protocol: *protocol,
        port: *port,
    };
    ports.iter().map(spec).collect()
}

/// An index that knows of these objects, and whose plan is up to date.
pub fn index(changes: impl IntoIterator<Item = Change>) -> Index {
    let mut index = Index::for_node(NODE);
    for change in changes {
        index.apply(change);
    }
    index.take_delta();
    index
}

/// The mark that packets from a pod to an address get on a network.
pub fn mark(index: &Index, from: &str, network: &NetworkKey, packet: Packet) -> Option<u8> {
    let plan = index.plan();
    let mut endpoints = plan.endpoints.iter();
    let (_, endpoint) = endpoints
        .find(|(id, endpoint)| endpoint.pod.name == name(from) && id.network == *network)?;
    let chain = &plan.chains[&endpoint.chain?];
    let winner = plan.classify(chain, network, packet).winner?;
    chain.rules[winner].dscp.map(Dscp::get)
}

/// The mark on the default network.
pub fn default_mark(index: &Index, from: &str, to: &str) -> Option<u8> {
    mark(index, from, &NetworkKey::Default, tcp(to, 80))
}

/// All addresses that the plan has on a network.
pub fn peers(index: &Index, network: &NetworkKey) -> BTreeSet<IpAddr> {
    let peers = index.plan().peers.on(network);
    peers.map(|(address, _)| address).collect()
}
