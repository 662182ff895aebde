//! Policies: those of the proposal, those that OVN-Kubernetes ships, and what neither may say.

use std::num::NonZeroU16;

use netqos_core::{
    BitRate, ByteCount, Destination, Mode, NetworkChoice, NetworkRef, ObjectName, Policy,
    PortMatch, Protocol,
};
use netqos_k8s::{Object, documents, objects_from_yaml, validate};

/// The objects of okep-4380, as written there.
pub const PROPOSAL: &str = include_str!("../../okep-4380.yaml");

/// An object as OVN-Kubernetes documents it.
pub const SHIPPED: &str = "
apiVersion: k8s.ovn.org/v1alpha1
kind: NetworkQoS
metadata: {name: shipped, namespace: games, annotations: {netqos.io/mode: 'shadow:1'}}
spec:
  networkSelectors:
  - networkSelectionType: NetworkAttachmentDefinitions
    networkAttachmentDefinitionSelector:
      namespaceSelector: {}
      networkSelector: {matchLabels: {name: stream}}
  podSelector: {matchLabels: {app: bandwidth-hog}}
  priority: 100
  egress:
  - dscp: 46
    bandwidth: {rate: 20000, burst: 100}
    classifier:
      to:
      - podSelector: {matchLabels: {app: iperf-server}}
        namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: games}}
      - {}
      ports:
      - {protocol: TCP, port: 80}
      - {port: 53}
      - {}
  - {dscp: 0}
";

fn policies(text: &str) -> Vec<Policy> {
    let objects = objects_from_yaml(text).into_iter();
    objects
        .map(|object| match object.unwrap() {
            Object::Policy(policy) => policy,
            other => panic!("{other:?}"),
        })
        .collect()
}

#[test]
fn the_proposals_own_objects_are_read() {
    for document in documents(PROPOSAL) {
        assert_eq!(validate(&document.value.unwrap()), []);
    }
    let policies = policies(PROPOSAL);
    let names: Vec<String> = policies.iter().map(|one| one.name.to_string()).collect();
    assert_eq!(
        names,
        [
            "games/qos-external-paid",
            "games/qos-external-free",
            "games/qos-external-free",
            "games/qos-external-free",
            "default/default"
        ]
    );
    let [paid, _, limited, secondary, ipv6] = &policies[..] else {
        panic!("{names:?}")
    };
    assert_eq!(paid.priority.get(), 1);
    assert_eq!(paid.pods.to_string(), "user-type=paid");
    assert_eq!(paid.networks, NetworkChoice::Default);
    assert_eq!(
        paid.rules[0].to[0].to_string(),
        "0.0.0.0/0 except 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16"
    );
    let bandwidth = limited.rules[0].bandwidth.unwrap();
    assert_eq!(bandwidth.rate, BitRate::from_bits_per_second(1_000_000_000));
    assert_eq!(bandwidth.burst, Some(ByteCount::from_bytes(125_000_000)));
    assert_eq!(
        secondary.networks,
        NetworkChoice::AnyOf(vec![NetworkRef::Attachment(ObjectName::new(
            "default",
            "ovn-storage"
        ))])
    );
    assert_eq!(
        ipv6.rules[0].to[0].to_string(),
        "2001:db8:85a3::8a2e:370:7330/124"
    );
}

#[test]
fn what_ovn_kubernetes_ships_is_read() {
    assert_eq!(validate(documents(SHIPPED)[0].value.as_ref().unwrap()), []);
    let policy = policies(SHIPPED).remove(0);
    let NetworkChoice::AnyOf(networks) = &policy.networks else {
        panic!("{policy:?}")
    };
    assert!(matches!(
        &networks[..],
        [NetworkRef::AttachmentsMatching { .. }]
    ));
    let rule = &policy.rules[0];
    assert_eq!(rule.to[1], Destination::Anywhere);
    let port = |protocol, port| PortMatch {
        protocol,
        port: NonZeroU16::new(port),
    };
    assert_eq!(rule.ports, [port(Some(Protocol::Tcp), 80), port(None, 53)]);
    assert_eq!(
        (rule.mode, policy.rules[1].mode),
        (Mode::Enforce, Mode::Shadow)
    );
}

#[test]
fn port_without_protocol_and_number_matches_everything() {
    let policies = policies(
        r#"{"apiVersion": "k8s.ovn.org/v1alpha1", "kind": "NetworkQoS", "metadata": {"name": "p"}, "spec": {
            "priority": 1, "podSelector": {},
            "egress": [{"dscp": 46, "classifier": {"ports": [{}]}}, {"dscp": 46}]}}"#,
    );
    let rules = &policies[0].rules;
    assert_eq!((rules.len(), &rules[0]), (2, &rules[1]));
}
