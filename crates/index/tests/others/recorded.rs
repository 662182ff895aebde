//! Attachments of `netqos-multinet`: their limits, and the addresses that only its records give.

use netqos_core::objects::{LocalInterface, NetworkName, Pod, RecordedLimits};
use netqos_core::{
    BitRate, Elsewhere, LabelSelector, Limit, Limits, NetworkChoice, NetworkKey, NetworkRef,
    Policy, Priority, Profile, Quota, Reason,
};
use netqos_index::{Change, Index, Query, To};

use crate::Applied as _;
use crate::objects::{
    NODE, attached, attachment, definition, index, interface, ip, mark, name, namespace, on, peers,
    pod, policy, rule, selector, tcp, to_pods,
};

const MEGABIT: u64 = 1_000_000;

fn limit(megabits: u64) -> Option<Limit> {
    let rate = BitRate::from_bits_per_second(megabits * MEGABIT);
    (megabits > 0).then(|| Limit::of(rate))
}

fn egress(megabits: u64) -> Limits {
    Limits {
        ingress: None,
        egress: limit(megabits),
    }
}

fn recorded(name: &str, network: NetworkName, address: &str, limits: Limits) -> LocalInterface {
    LocalInterface {
        recorded: Some(RecordedLimits {
            limits,
            selected: Limits::default(),
            is_delegated: false,
        }),
        ..interface(name, network, &[address])
    }
}

fn storage() -> NetworkName {
    NetworkName::Attachment(name("a/storage"))
}

/// `a/p` with `eth0` and, on `a/storage`, `net1`, which requests this.
fn on_two(requested: Limits) -> [Change; 3] {
    let object = Pod {
        node: Some(NODE.into()),
        ..pod("a/p", &[("app", "p")], &["10.0.0.1"])
    };
    let none = Limits::default();
    let interfaces = vec![
        recorded("eth0", NetworkName::Default, "10.0.0.1", none),
        recorded("net1", storage(), "192.168.0.1", requested),
    ];
    [
        Change::Pod(object),
        attached("a/p", interfaces),
        Change::NetworkDefinition(definition("a/storage", "lan")),
    ]
}

/// The egress limits in Mbit/s of the default network and of `a/storage`.
fn held(index: &Index) -> [u64; 2] {
    [NetworkKey::Default, attachment("a/storage")].map(|network| {
        let mut endpoints = index.plan().endpoints.iter();
        let found = endpoints.find(|(id, _)| id.network == network);
        let limit = found.and_then(|(_, endpoint)| endpoint.limits.egress);
        limit.map_or(0, |limit| limit.rate.bits_per_second() / MEGABIT)
    })
}

fn quota(megabits: u64, namespaces: LabelSelector) -> Change {
    Change::Quota(Quota {
        namespaces,
        max_rate: Some(BitRate::from_bits_per_second(megabits * MEGABIT)),
        ..Quota::new("tenants")
    })
}

fn profile(megabits: u64) -> Change {
    Change::Profile(Profile {
        name: name("a/free"),
        pods: LabelSelector::everything(),
        priority: Priority::default(),
        limits: egress(megabits),
    })
}

fn explained(index: &Index) -> String {
    let query = Query {
        from: name("a/p"),
        network: attachment("a/storage"),
        to: To::Address(ip("192.168.0.9")),
        protocol: None,
        port: None,
    };
    index.explain(&query).to_string()
}

#[test]
fn attachment_is_limited_to_its_request_and_else_to_the_profile() {
    let mut index = index(on_two(egress(50)));
    assert_eq!(held(&index), [0, 50]);
    assert!(explained(&index).contains("held to 50 Mbit/s\n"));
    index.applied(profile(20));
    assert_eq!(held(&index), [20, 50]);
    for change in on_two(Limits::default()) {
        index.apply(change);
    }
    index.take_delta();
    assert_eq!(held(&index), [20, 20]);
    index.applied(Change::ProfileGone(name("a/free")));
    assert_eq!(held(&index), [0, 0]);
}

#[test]
fn quota_bounds_each_attachment_and_says_so() {
    let mut index = index(on_two(egress(10_000)));
    let mut after = |change| {
        index.applied(change);
        let problems = index.problems();
        let bounded = problems.iter();
        let bounded = bounded.filter(|it| it.reason == Reason::QuotaExceeded);
        let messages: Vec<String> = bounded.map(|it| it.message.clone()).collect();
        (held(&index), messages, explained(&index))
    };
    let tenants = || selector(&[("tier", "tenant")]);
    assert_eq!(after(quota(1_000, tenants())).0, [0, 10_000]);
    let (limits, messages, explained) = after(namespace("a", &[("tier", "tenant")]));
    assert_eq!(limits, [0, 1_000]);
    assert_eq!(
        messages,
        [
            "its egress bandwidth on network a/storage is limited to 1 Gbit/s, which NetworkQoSQuota tenants allows; it \
          requests more"
        ]
    );
    let says = "held to 1 Gbit/s, which NetworkQoSQuota tenants allows";
    assert!(explained.contains(says), "{explained}");
    // What is not requested is not bounded, as for rules without a rate.
    assert_eq!(
        after(quota(20_000, tenants())),
        after(namespace("a", &[("tier", "tenant")]))
    );
    assert_eq!(after(quota(20_000, tenants())).0, [0, 10_000]);
    // A profile, and annotations, are bounded, too.
    assert_eq!(after(profile(30_000)).0, [20_000, 10_000]);
    assert_eq!(after(quota(10, tenants())).0, [10, 10]);
    assert_eq!(
        after(Change::QuotaGone("tenants".into())).0,
        [30_000, 10_000]
    );
    let mut annotated = pod("a/p", &[("app", "p")], &["10.0.0.1"]);
    annotated.node = Some(NODE.into());
    annotated.limits = egress(500);
    assert_eq!(after(Change::Pod(annotated)).0, [500, 10_000]);
    assert_eq!(after(quota(100, tenants())).0, [100, 100]);
    assert_eq!(after(namespace("a", &[])).0, [500, 10_000]);
}

#[test]
fn burst_of_a_request_beyond_the_quota_is_left_to_netqos() {
    let mut requested = egress(500);
    requested.egress.as_mut().unwrap().burst = Some(netqos_core::ByteCount::from_bits(8_000_000));
    let mut index = index(on_two(requested));
    index.applied(quota(100, LabelSelector::everything()));
    let endpoint = index.plan().endpoints.values().next().unwrap();
    assert_eq!(endpoint.limits, egress(100));
}

#[test]
fn limit_of_another_plugin_is_left_to_it_unless_a_quota_is_lower() {
    let delegated = LocalInterface {
        recorded: Some(RecordedLimits {
            limits: egress(50),
            selected: Limits::default(),
            is_delegated: true,
        }),
        ..interface("net1", storage(), &[])
    };
    let none = Limits::default();
    let eth0 = recorded("eth0", NetworkName::Default, "10.0.0.1", none);
    let mut index = index(on_two(none));
    index.applied(attached("a/p", vec![eth0, delegated]));
    assert_eq!(held(&index), [0, 0]);
    index.applied(quota(10, LabelSelector::everything()));
    assert_eq!(held(&index), [0, 10]);
}

/// The annotation `v1.multus-cni.io/default-network` requests it.
#[test]
fn limit_that_a_pod_selects_for_its_default_network_holds_beside_its_annotations() {
    let selecting = |megabits| {
        let mut eth0 = recorded("eth0", NetworkName::Default, "10.0.0.1", egress(megabits));
        eth0.recorded.as_mut().unwrap().selected = egress(megabits);
        attached("a/p", vec![eth0])
    };
    let mut index = index(on_two(Limits::default()));
    let mut after = |change| {
        index.applied(change);
        held(&index)[0]
    };
    assert_eq!(after(selecting(50)), 50);
    let annotated = |megabits| {
        let mut annotated = pod("a/p", &[("app", "p")], &["10.0.0.1"]);
        annotated.node = Some(NODE.into());
        annotated.limits = egress(megabits);
        Change::Pod(annotated)
    };
    assert_eq!(after(annotated(80)), 50);
    assert_eq!(after(annotated(20)), 20);
    assert_eq!(after(selecting(10)), 10);
    assert_eq!(after(quota(5, LabelSelector::everything())), 5);
    // Cilium has the annotations alone.
    let elsewhere = Elsewhere {
        egress: true,
        ..Elsewhere::default()
    };
    assert_eq!(after(Change::QuotaGone("tenants".into())), 10);
    assert_eq!(after(Change::Elsewhere(elsewhere)), 10);
    assert_eq!(after(selecting(0)), 0);
}

fn on_networks(networks: &[&str]) -> Policy {
    let to = to_pods(None, Some(selector(&[("app", "p")])));
    let references = networks.iter().map(|it| NetworkRef::Attachment(name(it)));
    Policy {
        networks: NetworkChoice::AnyOf(references.chain([NetworkRef::Default]).collect()),
        ..policy("a/qos", 1, vec![rule(20, vec![to])])
    }
}

/// The pod's annotations claim an address of the victim on each network, and the pod's own network once more.
#[test]
fn record_beats_forged_annotations_on_every_network() {
    let [_, interfaces, definition_of_storage] = on_two(Limits::default());
    let mut forger = pod("a/p", &[("app", "p")], &["10.0.0.1"]);
    forger.node = Some(NODE.into());
    let other = NetworkName::Attachment(name("b/other"));
    forger.addresses.push(on(storage(), &["192.168.0.7"]));
    forger.addresses.push(on(other.clone(), &["192.168.1.7"]));
    forger
        .addresses
        .push(on(NetworkName::Cni("lan".into()), &["192.168.0.7"]));
    forger
        .addresses
        .push(on(NetworkName::Cni("other".into()), &["192.168.1.7"]));
    let mut victim = pod("a/victim", &[("app", "victim")], &["10.0.0.7"]);
    victim.addresses.push(on(storage(), &["192.168.0.7"]));
    victim.addresses.push(on(other, &["192.168.1.7"]));
    let index = index([
        Change::Pod(forger),
        Change::Pod(victim),
        interfaces,
        definition_of_storage,
        Change::NetworkDefinition(definition("b/other", "other")),
        Change::Policy(on_networks(&["a/storage", "b/other"])),
    ]);
    let members = |network| {
        let members: Vec<String> = peers(&index, &network)
            .iter()
            .map(ToString::to_string)
            .collect();
        members
    };
    assert_eq!(members(NetworkKey::Default), ["10.0.0.1"]);
    assert_eq!(members(attachment("a/storage")), ["192.168.0.1"]);
    assert_eq!(members(attachment("b/other")), Vec::<String>::new());
    assert_eq!(
        mark(
            &index,
            "a/p",
            &attachment("a/storage"),
            tcp("192.168.0.7", 80)
        ),
        None
    );
    let networks = index.plan().endpoints.keys().map(|id| id.network.clone());
    let networks: Vec<NetworkKey> = networks.collect();
    assert_eq!(networks, [NetworkKey::Default, attachment("a/storage")]);
}

/// A network without IPAM, such as of virtual machines, and a default network of which the record has no address.
#[test]
fn attachment_without_addresses_takes_none_from_annotations() {
    let none = Limits::default();
    let mut object = pod("a/p", &[("app", "p")], &["10.0.0.1"]);
    object.node = Some(NODE.into());
    object.addresses.push(on(storage(), &["192.168.0.7"]));
    let bare = |name: &str, network| LocalInterface {
        addresses: [].into(),
        ..recorded(name, network, "10.0.0.1", none)
    };
    let index = index([
        Change::Pod(object),
        attached(
            "a/p",
            vec![bare("eth0", NetworkName::Default), bare("net1", storage())],
        ),
        Change::NetworkDefinition(definition("a/storage", "lan")),
        Change::Policy(on_networks(&["a/storage"])),
    ]);
    let of = |network| {
        let mut endpoints = index.plan().endpoints.iter();
        let found = endpoints.find(|(id, _)| id.network == network);
        found.map(|(_, endpoint)| endpoint.addresses.clone())
    };
    assert_eq!(of(NetworkKey::Default), Some([ip("10.0.0.1")].into()));
    assert_eq!(of(attachment("a/storage")), Some([].into()));
}

/// Two definitions may say the same name of a CNI network: the record says by which of them the pod is attached.
#[test]
fn network_of_an_attachment_is_that_of_its_definition() {
    let [object, _, mine] = on_two(Limits::default());
    let none = Limits::default();
    let interfaces = vec![
        recorded("eth0", NetworkName::Default, "10.0.0.1", none),
        recorded(
            "net1",
            NetworkName::Attachment(name("b/other")),
            "192.168.0.1",
            none,
        ),
    ];
    let index = index([
        object,
        attached("a/p", interfaces),
        mine,
        Change::NetworkDefinition(definition("b/other", "lan")),
        Change::Policy(on_networks(&["a/storage", "b/other"])),
    ]);
    assert_eq!(peers(&index, &attachment("b/other")).len(), 1);
    assert_eq!(peers(&index, &attachment("a/storage")).len(), 0);
}

/// A pod of another node, whose annotation is all that is known of it, claims the address that the record gives `a/p`.
#[test]
fn record_of_one_pod_beats_the_forged_annotation_of_another() {
    let [object, interfaces, definition_of_storage] = on_two(Limits::default());
    let forger = |claimed: &[&str]| {
        let mut forger = pod("a/forger", &[("app", "forger")], &["10.0.0.9"]);
        forger.addresses.push(on(storage(), claimed));
        Change::Pod(forger)
    };
    let mut victim = pod("a/p", &[("app", "p")], &["10.0.0.1"]);
    victim.node = Some(NODE.into());
    victim.addresses.push(on(storage(), &["192.168.0.1"]));
    let to = to_pods(None, Some(selector(&[("app", "forger")])));
    let rules = Policy {
        networks: NetworkChoice::AnyOf(vec![NetworkRef::Attachment(name("a/storage"))]),
        ..policy("a/qos", 1, vec![rule(20, vec![to])])
    };
    let members = |index: &Index| -> Vec<String> {
        let members = peers(index, &attachment("a/storage")).into_iter();
        members.map(|it| it.to_string()).collect()
    };
    let both = ["192.168.0.1", "192.168.0.9"];
    let mut index = index([
        forger(&both),
        Change::Pod(victim),
        attached("a/p", vec![interface("net1", storage(), &["192.168.0.1"])]),
        definition_of_storage,
        Change::Policy(rules),
    ]);
    // Without a record the two cannot be told apart.
    assert_eq!(members(&index), both);
    for change in [interfaces, object, forger(&[]), forger(&both)] {
        index.applied(change);
        let own = members(&index);
        assert!(!own.contains(&both[0].to_owned()), "{own:?}");
    }
    assert_eq!(members(&index), both[1..]);
}
