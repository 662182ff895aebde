//! On which of a pod's networks a policy is in force, and whose addresses count there.

use netqos_core::objects::{ClusterNetwork, NetworkDefinition, NetworkName, Pod};
use netqos_core::{LabelSelector, NetworkChoice, NetworkKey, NetworkRef, Policy, Reason};
use netqos_index::{Change, Index, Query, To};

use crate::Applied as _;
use crate::objects::{
    attached, attachment, definition, index, interface, labels, local, mark, name, namespace, on,
    peers, pod, policy, rule, selector, tcp, to_pods,
};

fn on_networks(references: Vec<NetworkRef>) -> Policy {
    let to = to_pods(None, Some(LabelSelector::everything()));
    Policy {
        networks: NetworkChoice::AnyOf(references),
        ..policy("a/qos", 1, vec![rule(20, vec![to])])
    }
}

/// `a/p` is here with an interface on CNI network `storage`; `a/peer` is elsewhere and on the
/// default network, on `a/storage` and on `b/other` with the same address.
fn with(references: Vec<NetworkRef>, definitions: Vec<NetworkDefinition>) -> Index {
    let mut changes = local("a/p", &[], "10.0.0.1").to_vec();
    changes.push(attached(
        "a/p",
        vec![
            interface("eth0", NetworkName::Cni("cbr0".into()), &["10.0.0.1"]),
            interface("net1", NetworkName::Cni("storage".into()), &["192.168.0.1"]),
        ],
    ));
    let mut peer = pod("a/peer", &[], &["10.0.0.2"]);
    let storage = NetworkName::Attachment(name("a/storage"));
    let other = NetworkName::Attachment(name("b/other"));
    peer.addresses.push(on(storage, &["192.168.0.2"]));
    peer.addresses.push(on(other, &["192.168.0.3"]));
    changes.push(Change::Pod(peer));
    changes.push(Change::Policy(on_networks(references)));
    changes.extend(definitions.into_iter().map(Change::NetworkDefinition));
    index(changes)
}

fn storage_mark(index: &Index, to: &str) -> Option<u8> {
    mark(index, "a/p", &attachment("a/storage"), tcp(to, 80))
}

#[test]
fn a_policy_is_in_force_on_the_networks_that_it_refers_to_only() {
    let storage = || NetworkRef::Attachment(name("a/storage"));
    for (references, on_storage, on_default) in [
        (vec![storage()], Some(20), None),
        (vec![NetworkRef::Default], None, Some(20)),
        (vec![storage(), NetworkRef::Default], Some(20), Some(20)),
        (vec![], None, None),
    ] {
        let index = with(references, vec![definition("a/storage", "storage")]);
        let default = mark(&index, "a/p", &NetworkKey::Default, tcp("10.0.0.2", 80));
        assert_eq!(storage_mark(&index, "192.168.0.2"), on_storage);
        assert_eq!(default, on_default);
        // Addresses of one network are not mixed into another.
        assert_eq!(storage_mark(&index, "10.0.0.2"), None);
        assert_eq!(storage_mark(&index, "192.168.0.3"), None);
    }
}

#[test]
fn two_networks_make_two_sets_of_one_selector() {
    let both = vec![
        NetworkRef::Attachment(name("a/storage")),
        NetworkRef::Default,
    ];
    let index = with(both, vec![definition("a/storage", "storage")]);
    assert_eq!(index.plan().sets.len(), 2);
    assert_eq!(peers(&index, &attachment("a/storage")).len(), 2);
    assert_eq!(peers(&index, &NetworkKey::Default).len(), 2);
}

#[test]
fn a_network_that_comes_late_is_waited_for_and_missed_when_it_goes() {
    let mut index = with(vec![NetworkRef::Attachment(name("a/storage"))], vec![]);
    let missing = |index: &Index| {
        let problems = index.problems();
        problems
            .iter()
            .filter(|problem| problem.reason == Reason::NetworkNotFound)
            .count()
    };
    assert_eq!(
        (storage_mark(&index, "192.168.0.2"), missing(&index)),
        (None, 1)
    );
    index.applied(Change::NetworkDefinition(definition(
        "a/storage",
        "storage",
    )));
    assert_eq!(
        (storage_mark(&index, "192.168.0.2"), missing(&index)),
        (Some(20), 0)
    );
    index.applied(Change::NetworkDefinition(definition("a/storage", "else")));
    assert_eq!(
        storage_mark(&index, "192.168.0.2"),
        None,
        "another CNI network"
    );
    index.applied(Change::NetworkDefinitionGone(name("a/storage")));
    assert_eq!(missing(&index), 1);
}

#[test]
fn networks_are_chosen_by_their_labels_and_their_namespaces_labels() {
    let reference = NetworkRef::AttachmentsMatching {
        namespaces: selector(&[("team", "x")]),
        networks: selector(&[("kind", "fast")]),
    };
    let mut index = with(vec![reference], vec![definition("a/storage", "storage")]);
    let mut after = |change| {
        index.applied(change);
        assert_eq!(
            index.problems(),
            vec![],
            "a selector that matches nothing is fine"
        );
        storage_mark(&index, "192.168.0.2")
    };
    let fast = NetworkDefinition {
        labels: labels(&[("kind", "fast")]),
        ..definition("a/storage", "storage")
    };
    assert_eq!(after(Change::NetworkDefinition(fast)), None);
    assert_eq!(after(namespace("a", &[("team", "x")])), Some(20));
    assert_eq!(after(namespace("a", &[])), None);
    assert_eq!(after(namespace("a", &[("team", "x")])), Some(20));
    let slow = definition("a/storage", "storage");
    assert_eq!(after(Change::NetworkDefinition(slow)), None);
}

#[test]
fn a_cluster_network_is_one_network_in_all_its_namespaces() {
    let owned = |text, cni| NetworkDefinition {
        cluster_network: Some("big".into()),
        ..definition(text, cni)
    };
    let big = NetworkKey::Cluster("big".into());
    for reference in [
        NetworkRef::Cluster("big".into()),
        NetworkRef::ClustersMatching(selector(&[("kind", "fast")])),
        NetworkRef::Attachment(name("a/storage")),
    ] {
        let mut index = with(
            vec![reference],
            vec![owned("a/storage", "storage"), owned("b/other", "other")],
        );
        index.applied(Change::ClusterNetwork(ClusterNetwork {
            name: "big".into(),
            labels: labels(&[("kind", "fast")]),
            primary: None,
        }));
        for to in ["192.168.0.2", "192.168.0.3"] {
            assert_eq!(mark(&index, "a/p", &big, tcp(to, 80)), Some(20));
        }
    }
}

#[test]
fn a_network_without_addresses_still_has_endpoints() {
    let mut index = with(
        vec![NetworkRef::Attachment(name("a/storage"))],
        vec![definition("a/storage", "storage")],
    );
    let bare = interface("net1", NetworkName::Cni("storage".into()), &[]);
    index.applied(attached("a/p", vec![bare]));
    let plan = index.plan();
    let (id, endpoint) = plan.endpoints.iter().next().unwrap();
    assert_eq!((&id.network, id.ordinal), (&attachment("a/storage"), 0));
    assert!(endpoint.addresses.is_empty());
    assert_eq!(storage_mark(&index, "192.168.0.2"), Some(20));
}

/// Else a tenant's definition would take all pods out of the default network, and what holds there would not hold for them.
#[test]
fn definition_with_the_name_of_the_default_network_takes_no_first_interface() {
    for text in ["a/forged", "b/forged"] {
        let index = with(vec![NetworkRef::Default], vec![definition(text, "cbr0")]);
        let plan = index.plan();
        let mut endpoints = plan.endpoints.iter();
        let of_default = endpoints.find(|(id, _)| id.network == NetworkKey::Default);
        let eth0 = of_default.and_then(|(_, endpoint)| endpoint.attach.interface());
        assert_eq!(eth0.map(|it| &*it.name), Some("eth0"), "{text}");
    }
}

#[test]
fn a_pods_own_network_comes_before_one_of_the_same_cni_name_elsewhere() {
    let mut index = with(
        vec![NetworkRef::Attachment(name("a/storage"))],
        vec![
            definition("a/storage", "storage"),
            definition("0/first", "storage"),
        ],
    );
    assert_eq!(storage_mark(&index, "192.168.0.2"), Some(20));
    index.apply(Change::NetworkDefinitionGone(name("a/storage")));
    index.apply(Change::Policy(on_networks(vec![NetworkRef::Attachment(
        name("0/first"),
    )])));
    let mut peer: Pod = pod("a/peer", &[], &[]);
    peer.addresses = vec![on(NetworkName::Cni("storage".into()), &["192.168.0.2"])];
    peer.addresses[0].interface = Some("net1".into());
    peer.addresses
        .insert(0, on(NetworkName::Default, &["10.0.0.2"]));
    index.applied(Change::Pod(peer));
    let first = attachment("0/first");
    assert_eq!(
        mark(&index, "a/p", &first, tcp("192.168.0.2", 80)),
        Some(20)
    );
}

#[test]
fn network_of_several_definitions_is_explained_by_any_of_them() {
    let owned = |text, cni| NetworkDefinition {
        cluster_network: Some("big".into()),
        ..definition(text, cni)
    };
    let definitions = vec![owned("a/storage", "storage"), owned("b/other", "other")];
    let index = with(vec![NetworkRef::Cluster("big".into())], definitions);
    for network in [
        NetworkKey::Cluster("big".into()),
        attachment("a/storage"),
        attachment("b/other"),
    ] {
        let explanation = index.explain(&Query {
            from: name("a/p"),
            network,
            to: To::Address("192.168.0.3".parse().unwrap()),
            protocol: None,
            port: None,
        });
        assert_eq!(explanation.refusal, None);
        assert_eq!(explanation.query.network, NetworkKey::Cluster("big".into()));
        let winner = explanation.outcome.unwrap().winner.unwrap();
        assert_eq!(winner.to_string(), "a/qos[0]");
    }
}
