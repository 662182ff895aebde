//! The primary network of a namespace, which user-defined networks may be, and forged claims to be on it.

use ipnet::IpNet;
use netqos_core::objects::{
    ClusterNetwork, LocalInterface, NetworkDefinition, NetworkName, Pod, PrimaryNetwork,
    UserNetwork,
};
use netqos_core::{BitRate, LabelSelector, Limit, Limits, NetworkKey};
use netqos_index::{Change, Index, Query, To};

use crate::Applied as _;
use crate::objects::{
    NODE, attached, attachment, default_mark, definition, index, interface, ip, mark, name,
    namespace, on, peers, pod, policy, rule, selector, tcp, to_pods,
};

fn subnets(texts: &[&str]) -> Vec<IpNet> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// The definition of a `UserDefinedNetwork` that is primary in its namespace, as OVN-Kubernetes makes it.
fn user_network(text: &str, cidr: &str) -> NetworkDefinition {
    NetworkDefinition {
        primary: Some(UserNetwork {
            uid: "blue-uid".into(),
            subnets: subnets(&[cidr]),
        }),
        is_of_ovn: true,
        owner_uid: Some("blue-uid".into()),
        ..definition(text, "blue")
    }
}

/// A `ClusterUserDefinedNetwork` that is primary in namespaces of the team.
fn cluster_network(cidr: &str) -> ClusterNetwork {
    ClusterNetwork {
        name: "wide".into(),
        labels: Default::default(),
        primary: Some(PrimaryNetwork {
            uid: "wide-uid".into(),
            namespaces: selector(&[("team", "x")]),
            subnets: subnets(&[cidr]),
        }),
    }
}

/// A definition that says that the cluster-wide network with this UID owns it, as a tenant may write it.
fn owned(text: &str, uid: &str) -> Change {
    Change::NetworkDefinition(NetworkDefinition {
        cluster_network: Some("wide".into()),
        is_of_ovn: true,
        owner_uid: Some(uid.into()),
        ..definition(text, "cluster_udn_wide")
    })
}

/// A pod with an address of the default network, whose annotation says that this network is its primary one.
fn claims(text: &str, address: &str, definition: &str, claimed: &str) -> Change {
    let mut claims = pod(text, &[("app", "peer")], &[address]);
    let primary = NetworkName::Primary(Some(name(definition)));
    claims.addresses.push(on(primary, &[claimed]));
    Change::Pod(claims)
}

/// `a/p` of this node, with the interfaces that the node found, and a rule to peers without references to networks.
fn with(interfaces: Vec<LocalInterface>) -> Vec<Change> {
    let sender = Pod {
        node: Some(NODE.into()),
        ..pod("a/p", &[("app", "p")], &["10.0.0.1"])
    };
    let to = to_pods(
        Some(LabelSelector::everything()),
        Some(selector(&[("app", "peer")])),
    );
    vec![
        Change::Pod(sender),
        attached("a/p", interfaces),
        Change::Policy(policy("a/qos", 1, vec![rule(20, vec![to])])),
    ]
}

fn on_primary() -> Vec<LocalInterface> {
    vec![
        interface(
            "eth0",
            NetworkName::Cni("ovn-kubernetes".into()),
            &["10.0.0.1"],
        ),
        interface("ovn-udn1", NetworkName::Primary(None), &["172.16.0.1"]),
    ]
}

fn members(index: &Index, network: &NetworkKey) -> Vec<String> {
    peers(index, network)
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn policy_without_references_is_on_the_primary_network_of_its_pods() {
    let blue = attachment("a/blue");
    let mut index = index(with(on_primary()));
    index.applied(claims("a/peer", "10.0.0.2", "a/blue", "172.16.0.2"));
    assert_eq!(default_mark(&index, "a/p", "10.0.0.2"), Some(20));
    index.applied(Change::NetworkDefinition(user_network(
        "a/blue",
        "172.16.0.0/16",
    )));
    assert_eq!(mark(&index, "a/p", &blue, tcp("172.16.0.2", 80)), Some(20));
    assert_eq!(default_mark(&index, "a/p", "10.0.0.2"), None);
    assert_eq!(members(&index, &blue), ["172.16.0.2"]);
    let interfaces = index
        .plan()
        .endpoints
        .values()
        .map(|it| it.attach.interface().unwrap());
    let interfaces: Vec<&str> = interfaces.map(|it| &*it.name).collect();
    assert_eq!(interfaces, ["ovn-udn1"]);
    let query = Query {
        from: name("a/p"),
        network: blue.clone(),
        to: To::Address(ip("172.16.0.2")),
        protocol: None,
        port: None,
    };
    let winner = index.explain(&query).outcome.and_then(|it| it.winner);
    assert_eq!(winner.map(|it| it.to_string()).as_deref(), Some("a/qos[0]"));
    index.applied(Change::NetworkDefinitionGone(name("a/blue")));
    assert_eq!(default_mark(&index, "a/p", "10.0.0.2"), Some(20));
    assert_eq!(mark(&index, "a/p", &blue, tcp("172.16.0.2", 80)), None);
}

/// Else its owner, who makes the user-defined network, would be rid of what holds on `eth0`.
#[test]
fn claim_of_a_pod_without_such_an_interface_leaves_the_default_network_primary() {
    let eth0 = interface("eth0", NetworkName::Cni("pods".into()), &["10.0.0.1"]);
    let mut changes = with(vec![eth0]);
    let Some(Change::Pod(sender)) = changes.first_mut() else {
        panic!("{changes:?}");
    };
    let primary = NetworkName::Primary(Some(name("a/blue")));
    sender.addresses.push(on(primary, &["172.16.0.1"]));
    let blue = user_network("a/blue", "172.16.0.0/16");
    changes.push(Change::NetworkDefinition(blue));
    changes.push(Change::Pod(pod(
        "a/peer",
        &[("app", "peer")],
        &["10.0.0.2"],
    )));
    let index = index(changes);
    assert_eq!(default_mark(&index, "a/p", "10.0.0.2"), Some(20));
}

/// Each claim is of a pod that is there; the network has a rule on this node.
#[test]
fn claim_to_be_on_a_primary_network_counts_only_where_objects_say_so() {
    for (pod, definition, address, counts) in [
        ("a/peer", "a/blue", "172.16.0.9", true),
        // Outside of its subnets.
        ("a/peer", "a/blue", "10.0.0.7", false),
        ("a/peer", "a/blue", "172.17.0.9", false),
        ("a/peer", "a/blue", "fd00::9", false),
        // Another definition than the primary one, which a tenant may write.
        ("a/peer", "a/forged", "172.16.0.9", false),
        ("a/peer", "a/missing", "172.16.0.9", false),
        // Of another namespace.
        ("b/peer", "a/blue", "172.16.0.9", false),
        ("b/peer", "b/blue", "172.16.0.9", false),
    ] {
        let mut changes = with(on_primary());
        changes.push(Change::NetworkDefinition(user_network(
            "a/blue",
            "172.16.0.0/16",
        )));
        changes.push(Change::NetworkDefinition(definition_of("a/forged")));
        changes.push(Change::NetworkDefinition(definition_of("b/blue")));
        changes.push(claims(pod, "10.0.0.2", definition, address));
        let index = index(changes);
        let found = members(&index, &attachment("a/blue"));
        let expected: &[&str] = if counts { &[address] } else { &[] };
        assert_eq!(found, expected, "{pod} {definition} {address}");
        for other in ["a/forged", "b/blue", "a/missing"] {
            assert_eq!(
                members(&index, &attachment(other)),
                [""; 0],
                "{pod} {definition}"
            );
        }
    }
}

fn definition_of(text: &str) -> NetworkDefinition {
    definition(text, "blue")
}

/// The entry of network-status has no role, and names a network of another namespace.
#[test]
fn pod_of_another_namespace_is_not_on_a_primary_network() {
    let mut changes = with(on_primary());
    changes.push(Change::NetworkDefinition(user_network(
        "a/blue",
        "172.16.0.0/16",
    )));
    for (text, network) in [
        ("b/one", NetworkName::Attachment(name("a/blue"))),
        ("b/two", NetworkName::Cni("blue".into())),
    ] {
        let mut forger = pod(text, &[("app", "peer")], &["10.0.0.3"]);
        forger.addresses.push(on(network, &["172.16.0.9"]));
        changes.push(Change::Pod(forger));
    }
    assert_eq!(members(&index(changes), &attachment("a/blue")), [""; 0]);
}

#[test]
fn cluster_network_is_primary_in_the_namespaces_that_it_selects() {
    let wide = NetworkKey::Cluster("wide".into());
    let mut changes = with(on_primary());
    changes.extend(["a/wide", "b/wide", "c/wide"].map(|text| owned(text, "wide-uid")));
    changes.push(Change::ClusterNetwork(cluster_network("172.16.0.0/16")));
    changes.push(namespace("a", &[("team", "x")]));
    changes.push(namespace("b", &[("team", "x")]));
    changes.push(claims("b/peer", "10.0.0.2", "b/wide", "172.16.0.2"));
    changes.push(claims("b/outside", "10.0.0.4", "b/wide", "10.0.0.7"));
    // Its namespace is not selected, whatever the definition in it says of its owner.
    changes.push(claims("c/forger", "10.0.0.3", "c/wide", "172.16.0.3"));
    let mut index = index(changes);
    assert_eq!(members(&index, &wide), ["172.16.0.2"]);
    assert_eq!(mark(&index, "a/p", &wide, tcp("172.16.0.2", 80)), Some(20));
    assert_eq!(default_mark(&index, "a/p", "10.0.0.2"), None);
    let mut after = |change| {
        index.applied(change);
        (
            members(&index, &wide),
            default_mark(&index, "a/p", "10.0.0.2"),
        )
    };
    let one = |text: &str| vec![text.to_owned()];
    assert_eq!(after(namespace("b", &[])), (vec![], None));
    assert_eq!(
        after(namespace("b", &[("team", "x")])),
        (one("172.16.0.2"), None)
    );
    let moved = Change::ClusterNetwork(cluster_network("172.20.0.0/16"));
    assert_eq!(after(moved), (vec![], None));
    // The sender's namespace is not selected any more: its primary network is the default one.
    assert_eq!(after(namespace("a", &[])).1, Some(20));
    assert_eq!(after(Change::ClusterNetworkGone("wide".into())).1, Some(20));
}

/// A tenant writes a definition of the name of its `UserDefinedNetwork`, with a plugin of its own: its pods leave `eth0`, and
/// all that holds there, for an interface of no such network.
#[test]
fn definition_that_its_user_defined_network_does_not_own_is_no_primary_network() {
    let interfaces = || {
        let net1 = NetworkName::Attachment(name("a/wide"));
        let eth0 = interface(
            "eth0",
            NetworkName::Cni("ovn-kubernetes".into()),
            &["10.0.0.1"],
        );
        vec![eth0, interface("net1", net1, &["172.16.0.1"])]
    };
    let peer = || Change::Pod(pod("a/peer", &[("app", "peer")], &["10.0.0.2"]));
    let keeps_eth0 = |definition: NetworkDefinition| {
        let mut changes = with(interfaces());
        changes.push(namespace("a", &[("team", "x")]));
        changes.push(Change::ClusterNetwork(cluster_network("172.16.0.0/16")));
        changes.extend([Change::NetworkDefinition(definition), peer()]);
        default_mark(&index(changes), "a/p", "10.0.0.2") == Some(20)
    };
    let genuine = user_network("a/wide", "172.16.0.0/16");
    for (owner, is_kept) in [
        (Some("blue-uid"), false),
        (Some("other"), true),
        (Some(""), true),
        (None, true),
    ] {
        let forged = NetworkDefinition {
            owner_uid: owner.map(Into::into),
            ..genuine.clone()
        };
        assert_eq!(keeps_eth0(forged), is_kept, "{owner:?}");
    }
    for (owner, is_kept) in [("wide-uid", false), ("other", true), ("", true)] {
        let Change::NetworkDefinition(forged) = owned("a/wide", owner) else {
            panic!("{owner}");
        };
        assert_eq!(keeps_eth0(forged), is_kept, "{owner}");
    }
    // A manifest may leave UIDs out.
    let mut written = genuine;
    written.owner_uid = Some("".into());
    written.primary.as_mut().unwrap().uid = "".into();
    assert!(!keeps_eth0(written));
}

#[test]
fn annotations_of_bandwidth_are_for_the_interface_of_the_primary_network() {
    let rate = BitRate::from_bits_per_second(5_000_000);
    let limits = Limits {
        ingress: None,
        egress: Some(Limit::of(rate)),
    };
    let sender = Pod {
        node: Some(NODE.into()),
        limits,
        ..pod("a/p", &[("app", "p")], &["10.0.0.1"])
    };
    let limited = |index: &Index| -> Vec<String> {
        let endpoints = index.plan().endpoints.values();
        let limited = endpoints.filter(|it| it.limits == limits);
        limited
            .map(|it| it.attach.interface().unwrap().name.clone())
            .collect()
    };
    let mut index = index([Change::Pod(sender), attached("a/p", on_primary())]);
    assert_eq!(limited(&index), ["eth0"]);
    index.applied(Change::NetworkDefinition(user_network(
        "a/blue",
        "172.16.0.0/16",
    )));
    assert_eq!(limited(&index), ["ovn-udn1"]);
    // A pod that was there before the network is on the default one alone.
    let eth0 = interface(
        "eth0",
        NetworkName::Cni("ovn-kubernetes".into()),
        &["10.0.0.1"],
    );
    index.applied(attached("a/p", vec![eth0]));
    assert_eq!(limited(&index), ["eth0"]);
}
