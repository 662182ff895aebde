//! Random clusters, small enough that their objects have to do with each other.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::Arc;

use netqos_core::objects::{
    AttachmentConfig, ClusterNetwork, EndpointSlice, LocalInterface, Namespace, NetworkDefinition,
    NetworkName, Pod, PodAddresses, Service, ServicePortSpec,
};
use netqos_core::plan::{Attach, Packet};
use netqos_core::{
    Bandwidth, BitRate, ByteCount, Destination, Dscp, IpBlock, LabelSelector, Labels, Limit,
    Limits, Mode, NetworkChoice, NetworkRef, ObjectName, Operator, PeerSelector, PodId, Policy,
    PortMatch, Priority, Protocol, Quota, Requirement, Rule,
};
use netqos_index::Change;
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::objects::{NODE, interface, ip};
use crate::reference::Cluster;

const ADDRESSES: [&str; 8] = [
    "10.0.0.1",
    "10.0.0.2",
    "10.0.0.3",
    "10.0.1.1",
    "10.0.1.2",
    "fd00::1",
    "fd00::2",
    "192.0.2.1",
];
const VIRTUAL: [&str; 3] = ["10.96.0.1", "10.96.0.2", "fd00:96::1"];
const BLOCKS: [&str; 6] = [
    "0.0.0.0/0",
    "10.0.0.0/8",
    "10.0.0.0/24",
    "10.96.0.0/16",
    "fd00::/16",
    "10.0.0.2/32",
];

fn word(of: &'static [&'static str]) -> impl Strategy<Value = Arc<str>> {
    select(of).prop_map(Arc::from)
}

fn namespace_name() -> impl Strategy<Value = Arc<str>> {
    word(&["a", "b", "c"])
}

fn object_name(of: &'static [&'static str]) -> impl Strategy<Value = ObjectName> {
    (namespace_name(), word(of)).prop_map(|(namespace, name)| ObjectName { namespace, name })
}

fn labels() -> impl Strategy<Value = Labels> {
    btree_map(word(&["app", "tier"]), word(&["x", "y", "z"]), 0..3)
}

fn label_selector() -> impl Strategy<Value = LabelSelector> {
    let values = || btree_set(word(&["x", "y", "a", "b"]), 1..3);
    let operator = prop_oneof![
        4 => values().prop_map(Operator::In),
        1 => values().prop_map(Operator::NotIn),
        1 => Just(Operator::Exists),
        1 => Just(Operator::DoesNotExist),
    ];
    let key = word(&["app", "tier", "kubernetes.io/metadata.name"]);
    let requirement = (key, operator).prop_map(|(key, operator)| Requirement { key, operator });
    vec(requirement, 0..3).prop_map(LabelSelector::new)
}

fn address() -> impl Strategy<Value = IpAddr> {
    select(&ADDRESSES[..]).prop_map(ip)
}

fn addresses() -> impl Strategy<Value = BTreeSet<IpAddr>> {
    btree_set(address(), 0..3)
}

fn network_name() -> impl Strategy<Value = NetworkName> {
    prop_oneof![
        3 => Just(NetworkName::Default),
        2 => object_name(&["n", "m"]).prop_map(NetworkName::Attachment),
        2 => word(&["cni1", "cni2", "cbr0"]).prop_map(NetworkName::Cni),
    ]
}

fn interface_name() -> impl Strategy<Value = Arc<str>> {
    word(&["eth0", "net1", "net2"])
}

fn pod_name() -> impl Strategy<Value = ObjectName> {
    object_name(&["p", "q", "r"])
}

fn uid(name: &ObjectName, incarnation: u8) -> Arc<str> {
    format!("{name}-{incarnation}").into()
}

fn limits() -> impl Strategy<Value = Limits> {
    let limit = (1_u64..3).prop_map(|rate| Limit::of(BitRate::from_bits_per_second(rate * 1000)));
    (
        option::weighted(0.1, limit.clone()),
        option::weighted(0.2, limit),
    )
        .prop_map(|(ingress, egress)| Limits { ingress, egress })
}

fn pod() -> impl Strategy<Value = Pod> {
    let said = (network_name(), option::of(interface_name()), addresses()).prop_map(
        |(network, interface, addresses)| PodAddresses {
            network,
            interface,
            addresses,
        },
    );
    let node = prop_oneof![
        5 => Just(Some(Arc::from(NODE))),
        3 => Just(Some(Arc::from("there"))),
        1 => Just(None),
    ];
    let rare = || prop::bool::weighted(0.1);
    (
        (pod_name(), 0..2_u8),
        labels(),
        node,
        (rare(), rare()),
        limits(),
        vec(said, 0..3),
    )
        .prop_map(
            |((name, incarnation), labels, node, (host_network, finished), limits, addresses)| {
                Pod {
                    id: PodId {
                        uid: uid(&name, incarnation),
                        name,
                    },
                    labels,
                    node,
                    host_network,
                    finished,
                    starting: false,
                    limits,
                    invalid_limits: None,
                    network_annotations: None,
                    config_hash: None,
                    addresses,
                }
            },
        )
}

fn attachments() -> impl Strategy<Value = Change> {
    let found = (network_name(), addresses(), prop::bool::weighted(0.2));
    let found = btree_map(interface_name(), found, 0..4).prop_map(|found| {
        let found = found.into_iter();
        found
            .map(|(name, (network, addresses, unsupported))| LocalInterface {
                recorded: None,
                addresses,
                attach: match unsupported {
                    true => Attach::Unsupported {
                        reason: "it is a tunnel".into(),
                    },
                    false => interface(&name, network.clone(), &[]).attach,
                },
                network,
                name,
            })
            .collect()
    });
    (pod_name(), option::of(0..2_u8), found).prop_map(|(pod, incarnation, interfaces)| {
        Change::Attachments {
            uid: incarnation.map(|incarnation| uid(&pod, incarnation)),
            pod,
            interfaces,
        }
    })
}

fn definition() -> impl Strategy<Value = NetworkDefinition> {
    (
        object_name(&["n", "m"]),
        labels(),
        word(&["cni1", "cni2"]),
        prop::bool::weighted(0.3),
    )
        .prop_map(|(name, labels, cni_name, is_owned)| NetworkDefinition {
            labels,
            cni_name,
            cluster_network: is_owned.then(|| name.name.clone()),
            is_of_ovn: is_owned,
            owner_uid: is_owned.then(|| "u".into()),
            attachment: AttachmentConfig::default(),
            primary: None,
            name,
        })
}

fn reference() -> impl Strategy<Value = NetworkRef> {
    prop_oneof![
        2 => Just(NetworkRef::Default),
        2 => object_name(&["n", "m"]).prop_map(NetworkRef::Attachment),
        1 => word(&["n", "m"]).prop_map(NetworkRef::Cluster),
        2 => (label_selector(), label_selector()).prop_map(|(namespaces, networks)| {
            NetworkRef::AttachmentsMatching { namespaces, networks }
        }),
        1 => label_selector().prop_map(NetworkRef::ClustersMatching),
    ]
}

fn block() -> impl Strategy<Value = IpBlock> {
    let excepts = vec(select(&BLOCKS[..]), 0..3);
    (select(&BLOCKS[..]), excepts).prop_map(|(cidr, excepts)| {
        let cidr: ipnet::IpNet = cidr.parse().unwrap();
        let excepts = excepts.into_iter().map(|except| except.parse().unwrap());
        let inside = excepts.filter(|except: &ipnet::IpNet| {
            cidr.contains(except) && except.prefix_len() > cidr.prefix_len()
        });
        IpBlock::try_new(cidr, inside.collect()).unwrap()
    })
}

fn destination() -> impl Strategy<Value = Destination> {
    let peers = (option::of(label_selector()), option::of(label_selector()));
    prop_oneof![
        3 => block().prop_map(Destination::Block),
        5 => peers.prop_map(|(namespaces, pods)| {
            let pods = if namespaces.is_none() && pods.is_none() {
                Some(LabelSelector::everything())
            } else {
                pods
            };
            Destination::Pods(PeerSelector { namespaces, pods })
        }),
        1 => Just(Destination::Anywhere),
    ]
}

fn protocol() -> impl Strategy<Value = Protocol> {
    select(&Protocol::ALL[..])
}

fn port_number() -> impl Strategy<Value = u16> {
    select(&[80_u16, 443, 8080][..])
}

fn port_match() -> impl Strategy<Value = PortMatch> {
    (option::of(protocol()), option::of(port_number())).prop_map(|(protocol, port)| PortMatch {
        protocol,
        port: port.and_then(NonZeroU16::new),
    })
}

/// A rule without a rate, for which no meter is needed.
pub fn rule() -> impl Strategy<Value = Rule> {
    let mode = prop_oneof![4 => Just(Mode::Enforce), 1 => Just(Mode::Shadow)];
    let dscp = option::weighted(0.8, 0_i64..64);
    (
        vec(destination(), 0..3),
        vec(port_match(), 0..3),
        dscp,
        mode,
    )
        .prop_map(|(to, ports, dscp, mode)| Rule {
            to,
            ports,
            dscp: dscp.and_then(|dscp| Dscp::try_new(dscp).ok()),
            bandwidth: None,
            mode,
        })
}

/// A rule that may have a rate.
pub fn rule_with_rate() -> impl Strategy<Value = Rule> {
    let kilobits = || select(&[1_u64, 100, 20_000, 4_294_967_295][..]).prop_map(|it| it * 1000);
    let bandwidth = (kilobits(), option::of(kilobits())).prop_map(|(rate, burst)| Bandwidth {
        rate: BitRate::from_bits_per_second(rate),
        burst: burst.map(ByteCount::from_bits),
    });
    let bandwidth = option::weighted(0.4, bandwidth);
    (rule(), bandwidth).prop_map(|(rule, bandwidth)| Rule { bandwidth, ..rule })
}

fn policy(rule: impl Strategy<Value = Rule>) -> impl Strategy<Value = Policy> {
    let networks = prop_oneof![
        2 => Just(NetworkChoice::Default),
        1 => vec(reference(), 0..3).prop_map(NetworkChoice::AnyOf),
    ];
    (
        object_name(&["p", "q", "r"]),
        0_i64..3,
        networks,
        prop_oneof![2 => Just(LabelSelector::everything()), 3 => label_selector()],
        vec(rule, 0..4),
    )
        .prop_map(|(name, priority, networks, pods, rules)| Policy {
            name,
            priority: Priority::try_new(priority).unwrap(),
            networks,
            pods,
            rules,
        })
}

fn service_ports() -> impl Strategy<Value = Vec<ServicePortSpec>> {
    let spec = (word(&["", "web"]), protocol(), port_number());
    let spec = spec.prop_map(|(name, protocol, port)| ServicePortSpec {
        name,
        protocol,
        port,
    });
    vec(spec, 0..3)
}

fn service() -> impl Strategy<Value = Service> {
    let addresses = btree_set(select(&VIRTUAL[..]).prop_map(ip), 0..3);
    (object_name(&["s", "t"]), addresses, service_ports()).prop_map(|(name, addresses, ports)| {
        Service {
            name,
            addresses,
            ports,
        }
    })
}

fn slice() -> impl Strategy<Value = EndpointSlice> {
    let name = object_name(&["s1", "s2"]);
    (name, word(&["s", "t"]), service_ports(), addresses()).prop_map(
        |(name, service, ports, addresses)| EndpointSlice {
            name,
            service,
            ports,
            addresses,
        },
    )
}

/// Something that becomes of a cluster whose policies are made of such rules.
pub fn change(rule: impl Strategy<Value = Rule> + 'static) -> impl Strategy<Value = Change> {
    let namespace = (namespace_name(), labels())
        .prop_map(|(name, labels)| Change::Namespace(Namespace { name, labels }));
    let cluster = (word(&["n", "m"]), labels()).prop_map(|(name, labels)| {
        Change::ClusterNetwork(ClusterNetwork {
            name,
            labels,
            primary: None,
        })
    });
    let pod_gone = (pod_name(), 0..2_u8).prop_map(|(name, incarnation)| {
        Change::PodGone(PodId {
            uid: uid(&name, incarnation),
            name,
        })
    });
    prop_oneof![
        4 => namespace,
        1 => namespace_name().prop_map(Change::NamespaceGone),
        10 => pod().prop_map(Change::Pod),
        2 => pod_gone,
        3 => definition().prop_map(Change::NetworkDefinition),
        1 => object_name(&["n", "m"]).prop_map(Change::NetworkDefinitionGone),
        1 => cluster,
        1 => word(&["n", "m"]).prop_map(Change::ClusterNetworkGone),
        8 => policy(rule).prop_map(Change::Policy),
        1 => object_name(&["p", "q", "r"]).prop_map(Change::PolicyGone),
        2 => service().prop_map(Change::Service),
        1 => object_name(&["s", "t"]).prop_map(Change::ServiceGone),
        2 => slice().prop_map(Change::EndpointSlice),
        1 => object_name(&["s1", "s2"]).prop_map(Change::EndpointSliceGone),
        4 => attachments(),
    ]
}

/// A packet to somewhere in such a cluster.
pub fn packet() -> impl Strategy<Value = Packet> {
    let destination = prop_oneof![3 => address(), 1 => select(&VIRTUAL[..]).prop_map(ip)];
    (
        destination,
        option::weighted(0.9, protocol()),
        option::weighted(0.9, port_number()),
    )
        .prop_map(|(destination, protocol, port)| Packet {
            destination,
            protocol,
            port: protocol.and(port),
        })
}

/// How many cases a property is tried on: `NETQOS_CASES`, or what a build can wait for.
pub fn config() -> ProptestConfig {
    let asked = std::env::var("NETQOS_CASES").ok();
    ProptestConfig {
        cases: asked.and_then(|asked| asked.parse().ok()).unwrap_or(512),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Keeps account of a cluster in the plainest way.
pub fn note(cluster: &mut Cluster, change: Change) {
    match change {
        Change::Namespace(it) => drop(cluster.namespaces.insert(it.name, it.labels)),
        Change::NamespaceGone(name) => drop(cluster.namespaces.remove(&name)),
        Change::Pod(it) => drop(cluster.pods.insert(it.id.name.clone(), it)),
        Change::PodGone(id) => cluster.pods.retain(|_, pod| pod.id != id),
        Change::NetworkDefinition(it) => drop(cluster.definitions.insert(it.name.clone(), it)),
        Change::NetworkDefinitionGone(name) => drop(cluster.definitions.remove(&name)),
        Change::ClusterNetwork(it) => drop(cluster.cluster_networks.insert(it.name.clone(), it)),
        Change::ClusterNetworkGone(name) => drop(cluster.cluster_networks.remove(&name)),
        Change::Policy(it) => drop(cluster.policies.insert(it.name.clone(), it)),
        Change::PolicyGone(name) => drop(cluster.policies.remove(&name)),
        Change::Service(it) => drop(cluster.services.insert(it.name.clone(), it)),
        Change::ServiceGone(name) => drop(cluster.services.remove(&name)),
        Change::EndpointSlice(it) => drop(cluster.slices.insert(it.name.clone(), it)),
        Change::EndpointSliceGone(name) => drop(cluster.slices.remove(&name)),
        // The reference knows of no quotas: their test leaves out by itself what is beyond them.
        Change::Quota(_) | Change::QuotaGone(_) => {}
        // What holds a whole pod has nothing to do with what its packets meet.
        Change::Profile(_) | Change::ProfileGone(_) => {}
        // Who is a peer is told by the pods.
        Change::PeerSlice(_) | Change::PeerSliceGone(_) => {}
        // Nothing is enforced elsewhere: that has tests of its own.
        Change::Elsewhere(_) => {}
        Change::Attachments {
            pod,
            uid,
            interfaces,
        } => drop(cluster.found.insert(pod, (uid, interfaces))),
    }
}

/// What makes such a cluster out of nothing, policies first or last.
pub fn changes_to(cluster: &Cluster, policies_first: bool) -> Vec<Change> {
    let policies = cluster.policies.values().cloned().map(Change::Policy);
    let mut changes = Vec::new();
    if policies_first {
        changes.extend(policies.clone());
    }
    let Cluster {
        namespaces,
        pods,
        definitions,
        cluster_networks,
        services,
        slices,
        found,
        ..
    } = cluster.clone();
    let namespaces = namespaces.into_iter();
    changes.extend(namespaces.map(|(name, labels)| Change::Namespace(Namespace { name, labels })));
    changes.extend(pods.into_values().map(Change::Pod));
    changes.extend(definitions.into_values().map(Change::NetworkDefinition));
    let cluster_networks = cluster_networks.into_values();
    changes.extend(cluster_networks.map(Change::ClusterNetwork));
    changes.extend(services.into_values().map(Change::Service));
    changes.extend(slices.into_values().map(Change::EndpointSlice));
    for (pod, (uid, interfaces)) in found {
        changes.push(Change::Attachments {
            pod,
            uid,
            interfaces,
        });
    }
    if !policies_first {
        changes.extend(policies);
    }
    changes
}

/// A bound for what such policies ask for.
pub fn quota() -> impl Strategy<Value = Quota> {
    let rate = (1_u64..3).prop_map(|it| BitRate::from_bits_per_second(it * 10_000_000));
    let dscp = (0_i64..64).prop_map(|it| Dscp::try_new(it).unwrap());
    let marks = btree_set(dscp, 20..64);
    (
        word(&["one", "two"]),
        label_selector(),
        (0_i64..2, 1_i64..4),
        option::weighted(0.3, rate),
        option::weighted(0.3, marks),
        option::weighted(0.3, 0..4_u16),
    )
        .prop_map(
            |(name, namespaces, (least, most), max_rate, marks, max_rules)| Quota {
                name,
                namespaces,
                min_priority: Priority::try_new(least).unwrap(),
                max_priority: Priority::try_new(most).unwrap(),
                max_rate,
                dscp: marks,
                max_rules,
            },
        )
}
