//! What is read from manifests, and what is not.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bodies;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::num::NonZeroU16;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use netqos_core::objects::{NetworkName, Pod};
use netqos_core::{
    BitRate, ByteCount, Destination, Mode, NetworkChoice, NetworkRef, ObjectName, ObjectRef,
    Policy, PortMatch, Problem, Protocol, Reason,
};
use netqos_k8s::{Object, crd, crd_yaml, documents, objects_from_yaml, validate};
use proptest::prelude::*;

/// The objects of okep-4380, as written there.
const PROPOSAL: &str = include_str!("okep-4380.yaml");

/// An object as OVN-Kubernetes documents it.
const SHIPPED: &str = "
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

fn pod(text: &str) -> (Pod, Vec<Problem>) {
    match objects_from_yaml(text).remove(0).unwrap() {
        Object::Pod(pod, problems) => (*pod, problems),
        other => panic!("{other:?}"),
    }
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
fn a_pods_addresses_are_those_of_each_network() {
    let (pod, problems) = pod(r#"
apiVersion: v1
kind: Pod
metadata:
  name: p
  uid: u
  labels: {a: b}
  annotations:
    kubernetes.io/egress-bandwidth: 10M
    k8s.v1.cni.cncf.io/network-status: |
      [{"name": "cbr0", "interface": "eth0", "ips": ["10.0.0.5"], "default": true},
       {"name": "default/storage", "interface": "net1", "ips": ["192.0.2.5", "2001:db8::5"]},
       {"name": "ovn/flat", "interface": "net2"}]
    k8s.ovn.org/pod-networks: |
      {"default": {"ip_addresses": ["10.9.9.9/24"], "mac_address": "0a:58:0a:f4:00:05"},
       "default/storage": {"ip_addresses": ["192.0.2.9/24"]},
       "ovn/flat": {"ip_addresses": ["198.51.100.5/24"], "ip_address": "198.51.100.5/24"}}
spec: {nodeName: n1}
status: {phase: Running, podIP: 10.0.0.5, podIPs: [{ip: 10.0.0.5}, {ip: "fd00::5"}]}
"#);
    assert_eq!(problems, []);
    assert_eq!(
        (pod.node.as_deref(), pod.finished, &*pod.id.uid),
        (Some("n1"), false, "u")
    );
    assert!(pod.limits.egress.is_some() && pod.limits.ingress.is_none());
    let addresses = |texts: &[&str]| -> BTreeSet<std::net::IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    };
    let attachment = |namespace, name| NetworkName::Attachment(ObjectName::new(namespace, name));
    let found: Vec<_> = pod
        .addresses
        .iter()
        .map(|one| {
            (
                one.network.clone(),
                one.interface.as_deref(),
                one.addresses.clone(),
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            (
                NetworkName::Default,
                Some("eth0"),
                addresses(&["10.0.0.5", "fd00::5"])
            ),
            (
                attachment("default", "storage"),
                Some("net1"),
                addresses(&["192.0.2.5", "2001:db8::5"])
            ),
            (
                attachment("ovn", "flat"),
                Some("net2"),
                addresses(&["198.51.100.5"])
            ),
        ]
    );
}

#[test]
fn a_pod_with_bad_annotations_is_a_pod_with_problems() {
    let (pod, problems) = pod(r#"
apiVersion: v1
kind: Pod
metadata:
  name: p
  annotations: {kubernetes.io/egress-bandwidth: fast, k8s.v1.cni.cncf.io/network-status: "[{"}
"#);
    assert!(pod.limits.is_unlimited());
    assert_eq!(&*pod.id.uid, "default/p");
    let [bandwidth, networks] = &problems[..] else {
        panic!("{problems:?}")
    };
    assert_eq!(bandwidth.reason, Reason::InvalidBandwidth);
    assert_eq!(
        bandwidth.object,
        ObjectRef::Pod(ObjectName::new("default", "p"))
    );
    for word in ["kubernetes.io/egress-bandwidth", "fast"] {
        assert!(bandwidth.message.contains(word), "{bandwidth}");
    }
    assert!(networks.message.contains("network-status"), "{networks}");
}

#[test]
fn a_pod_is_finished_when_nothing_of_it_runs_any_more() {
    let running = "containerStatuses: [{name: c, image: i, imageID: x, ready: true, restartCount: 0, state: {running: {}}}]";
    let ended = running.replace("running", "terminated");
    let ended = ended.replace("terminated: {}", "terminated: {exitCode: 0}");
    for (deleting, status, finished) in [
        (false, "phase: Succeeded".to_owned(), true),
        (false, "phase: Failed".to_owned(), true),
        (false, "phase: Pending".to_owned(), false),
        (false, format!("phase: Running, {ended}"), false),
        (true, format!("phase: Running, {running}"), false),
        (true, format!("phase: Running, {ended}"), true),
    ] {
        let deletion = if deleting {
            ", deletionTimestamp: '2026-01-01T00:00:00Z'"
        } else {
            ""
        };
        let text = format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: p{deletion}}}, status: {{{status}}}}}"
        );
        assert_eq!(pod(&text).0.finished, finished, "{text}");
    }
}

#[test]
fn every_other_kind_is_read() {
    let objects = objects_from_yaml(
        r#"
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Namespace, metadata: {name: games, labels: {a: b}}}
- {apiVersion: v1, kind: Node, metadata: {name: n1}}
- apiVersion: v1
  kind: Service
  metadata: {name: s, namespace: games}
  spec: {clusterIP: 10.96.0.10, clusterIPs: [10.96.0.10, "fd00::a"],
    ports: [{name: dns, port: 53, protocol: UDP, targetPort: 5353}, {port: 80}]}
- {apiVersion: v1, kind: Service, metadata: {name: headless}, spec: {clusterIP: None}}
- apiVersion: discovery.k8s.io/v1
  kind: EndpointSlice
  metadata: {name: s-1, namespace: games, labels: {kubernetes.io/service-name: s}}
  addressType: IPv4
  endpoints: [{addresses: [10.0.0.1]}, {addresses: [10.0.0.2], conditions: {serving: false}}]
  ports: [{name: dns, port: 5353, protocol: UDP}]
- apiVersion: k8s.cni.cncf.io/v1
  kind: NetworkAttachmentDefinition
  metadata: {name: storage, namespace: games, labels: {a: b},
    ownerReferences: [{apiVersion: k8s.ovn.org/v1, kind: ClusterUserDefinedNetwork, name: all, uid: u}]}
  spec: {config: '{"cniVersion": "1.0.0", "name": "storage-net", "type": "macvlan"}'}
- {apiVersion: k8s.ovn.org/v1, kind: UserDefinedNetwork, metadata: {name: u, namespace: games}}
- {apiVersion: k8s.ovn.org/v1, kind: ClusterUserDefinedNetwork, metadata: {name: all}}
- {apiVersion: apps/v1, kind: Deployment, metadata: {name: d}}
"#,
    );
    let mut said = String::new();
    for object in objects {
        match object.unwrap() {
            Object::Namespace(one) => write!(said, "{} {:?};", one.name, one.labels),
            Object::Node(name) => write!(said, "{name};"),
            Object::Service(one) => {
                write!(
                    said,
                    "{} {:?} {};",
                    one.name,
                    one.addresses,
                    one.ports.len()
                )
            }
            Object::EndpointSlice(one) => write!(
                said,
                "{} {} {:?} {};",
                one.name, one.service, one.addresses, one.ports[0].port
            ),
            Object::Network(one) => write!(said, "{} {} {};", one.name, one.cni_name, one.key()),
            Object::ClusterNetwork(one) => write!(said, "{};", one.name),
            Object::Other { api_version, kind } => write!(said, "{api_version} {kind};"),
            other => panic!("{other:?}"),
        }
        .unwrap();
        said.push('\n');
    }
    let labels = r#"{"a": "b", "kubernetes.io/metadata.name": "games"}"#;
    assert_eq!(
        said,
        format!(
            "games {labels};\nn1;\ngames/s {{10.96.0.10, fd00::a}} 2;\ndefault/headless {{}} 0;\n\
             games/s-1 s {{10.0.0.1}} 5353;\ngames/storage storage-net */all;\n\
             games/u games_u games/u;\nall;\napps/v1 Deployment;\n"
        )
    );
}

#[test]
fn a_broken_document_stops_no_other_and_is_named() {
    let text = "# games\n---\n{apiVersion: v1, kind: Namespace, metadata: {name: a}}\n--- # half\nkind: [Pod\n---\n\
        apiVersion: k8s.ovn.org/v1alpha1\nkind: NetworkQoS\nmetadata: {name: q, namespace: games}\n\
        spec: {priority: 200, egress: [{dscp: 1}]}\n---\n{apiVersion: v1, kind: Pod, metadata: {}}\n---\n\
        apiVersion: v1\nkind: NamespaceList\nitems:\n- {apiVersion: v1, kind: Namespace, metadata: {}}\n---\n---\n\
        {apiVersion: v1, kind: Pod, metadata: {name: b}}\n";
    let objects = objects_from_yaml(text);
    let said: Vec<String> = objects
        .iter()
        .map(|object| match object {
            Ok(_) => "ok".to_owned(),
            Err(error) => error.to_string(),
        })
        .collect();
    assert_eq!((said.len(), &*said[0], &*said[5]), (6, "ok", "ok"));
    assert!(said[1].starts_with("document 2 (line 4): "), "{}", said[1]);
    assert_eq!(
        said[2],
        "document 3 (line 6), NetworkQoS games/q: spec.priority: 200 is not between 0 and 100"
    );
    assert_eq!(said[3], "document 4 (line 11), Pod: metadata.name: missing");
    assert_eq!(
        said[4],
        "document 5 (line 13), Namespace: items[0].metadata.name: missing"
    );
    let error = objects[2].as_ref().unwrap_err();
    assert_eq!(
        error.object(),
        Some(ObjectRef::Policy(ObjectName::new("games", "q")))
    );
    // JSON, one after the other.
    let json = "{\"apiVersion\": \"v1\",\n \"kind\": \"Node\", \"metadata\": {\"name\": \"a\"}}\n\n{\"kind\": 1}";
    let lines: Vec<usize> = documents(json).iter().map(|one| one.line).collect();
    assert_eq!(lines, [1, 4]);
    assert!(objects_from_yaml(json)[0].is_ok() && objects_from_yaml(json)[1].is_err());
}

#[test]
fn the_definition_in_the_repository_is_the_one_of_the_types() {
    let written = include_str!("../../../deploy/crds/k8s.ovn.org_networkqoses.yaml");
    assert_eq!(written, crd_yaml().unwrap(), "cargo xtask crds");
    let read: CustomResourceDefinition = serde_saphyr::from_str(written).unwrap();
    assert_eq!(read, crd().unwrap());
}

/// An API server's demands on a structural schema, and its estimate of what CEL may cost, need a
/// type everywhere, and a limit on every list, map and text.
#[test]
fn every_list_and_every_text_has_a_limit() {
    fn look(schema: &serde_json::Value, path: &str) {
        let known = [
            "description",
            "title",
            "type",
            "format",
            "enum",
            "pattern",
            "minimum",
            "maximum",
            "minLength",
            "maxLength",
            "minItems",
            "maxItems",
            "maxProperties",
            "properties",
            "additionalProperties",
            "items",
            "required",
            "x-kubernetes-list-type",
            "x-kubernetes-list-map-keys",
            "x-kubernetes-map-type",
            "x-kubernetes-validations",
        ];
        let schema = schema.as_object().unwrap();
        for word in schema.keys() {
            assert!(known.contains(&&**word), "{path}: {word}");
        }
        let limit = match schema["type"].as_str().unwrap() {
            "string" => Some("maxLength"),
            "array" => Some("maxItems"),
            "object" if schema.contains_key("additionalProperties") => Some("maxProperties"),
            _ => None,
        };
        if let Some(limit) = limit {
            assert!(schema.contains_key(limit), "{path}: {limit}");
        }
        let described = path.ends_with(']') || path.ends_with('}') || path.is_empty();
        assert!(described || schema.contains_key("description"), "{path}");
        for (name, inner) in schema
            .get("properties")
            .and_then(|all| all.as_object())
            .into_iter()
            .flatten()
        {
            look(inner, &format!("{path}.{name}"));
        }
        for (word, mark) in [("items", "[]"), ("additionalProperties", "{}")] {
            if let Some(inner) = schema.get(word) {
                look(inner, &format!("{path}{mark}"));
            }
        }
    }
    let crd = serde_json::to_value(crd().unwrap()).unwrap();
    look(&crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"], "");
    let version = &crd["spec"]["versions"][0];
    assert!(version["subresources"]["status"].is_object());
    assert_eq!(crd["spec"]["names"]["plural"], "networkqoses");
    assert_eq!(crd["spec"]["scope"], "Namespaced");
}

/// Values that are often right, and often just beyond it.
fn value() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "0",
        "1",
        "63",
        "64",
        "100",
        "101",
        "65535",
        "65536",
        "4294967295",
        "4294967296",
        "-1",
        "1.5",
        "null",
        "{}",
        "[]",
        "TCP",
        "tcp",
        "TCPx",
        "10.0.0.0/8",
        "10.1.0.0/16",
        "::/0",
        "10.0.0.0",
        "[10.1.0.0/16]",
        "{port: 80}",
        "[{port: 80, protocol: UDP}]",
        "[{}]",
        "{matchLabels: {a: b}}",
        "{rate: 1, burst: 2}",
        "{burst: 2}",
        "{matchExpressions: [{key: a, operator: In, values: [b]}]}",
        "{matchExpressions: [{key: a, operator: Exists, values: [b]}]}",
        "[{kind: UserDefinedNetwork, name: storage}]",
        "[{networkSelectionType: DefaultNetwork}]",
        "{cidr: 10.0.0.0/8, except: [10.1.0.0/16]}",
        "{cidr: 10.0.0.0/8, except: [11.0.0.0/8]}",
    ])
}

/// What a field may say.
fn fitting(name: &str) -> Vec<&'static str> {
    match name {
        "podSelector" | "namespaceSelector" => vec!["{}", "{matchLabels: {a: b}}"],
        "ipBlock" => vec![
            "{cidr: '::/0'}",
            "{cidr: 10.0.0.0/8, except: [10.1.0.0/16]}",
        ],
        "bandwidth" => vec!["{}", "{rate: 1}", "{rate: 4294967295, burst: 1}"],
        "port" => vec!["{}", "{port: 80}", "{protocol: TCP}"],
        "ports" => vec!["[]", "[{port: 80, protocol: UDP}]"],
        "netAttachRefs" => vec!["[{kind: UserDefinedNetwork, name: storage}]"],
        "networkSelectors" => vec!["[{networkSelectionType: DefaultNetwork}]"],
        _ => vec!["0", "63"],
    }
}

fn nearly_a_policy() -> impl Strategy<Value = String> {
    let fields = |names: &'static [&'static str], most| {
        let field = prop::sample::select(names).prop_flat_map(|name| {
            let value = prop_oneof![9 => prop::sample::select(fitting(name)), 1 => value()];
            (Just(name), value)
        });
        prop::collection::vec(field, 0..=most)
            .prop_map(|fields| fields.into_iter().collect::<BTreeMap<_, _>>())
    };
    let entries = |fields: BTreeMap<&str, &str>| {
        let entries = fields
            .iter()
            .map(|(name, value)| format!("{name}: {value}"));
        entries.collect::<Vec<_>>().join(", ")
    };
    let destination = fields(
        &[
            "podSelector",
            "podSelector",
            "namespaceSelector",
            "ipBlock",
            "ipBlock",
        ],
        2,
    );
    let rule = (
        fields(
            &[
                "dscp",
                "dscp",
                "dscp",
                "dscp",
                "bandwidth",
                "bandwidth",
                "from",
            ],
            2,
        ),
        fields(&["port", "ports"], 2),
        prop::collection::vec(destination, 0..3),
    )
        .prop_map(move |(rule, classifier, to)| {
            let to: Vec<String> = to
                .into_iter()
                .map(|to| format!("{{{}}}", entries(to)))
                .collect();
            let mut classifier = entries(classifier);
            if !to.is_empty() {
                classifier = format!("to: [{}], {classifier}", to.join(", "));
            }
            format!("{{{}, classifier: {{{classifier}}}}}", entries(rule)).replace("{,", "{")
        });
    let spec = fields(
        &[
            "priority",
            "podSelector",
            "netAttachRefs",
            "networkSelectors",
        ],
        3,
    );
    let mode = prop::sample::select(vec![
        "enforce",
        "shadow",
        "shadow:0",
        "shadow:1",
        "shadow:0,1",
        "on",
    ]);
    (spec, prop::collection::vec(rule, 1..3), mode).prop_map(move |(mut spec, rules, mode)| {
        spec.entry("priority").or_insert("1");
        format!(
            "{{apiVersion: k8s.ovn.org/v1alpha1, kind: NetworkQoS, metadata: {{name: qos, \
             annotations: {{netqos.io/mode: '{mode}'}}}}, spec: {{{}, egress: [{}]}}}}",
            entries(spec),
            rules.join(", ")
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// What an API server would take is what the conversion takes, also where nothing stands in
    /// front of it.
    #[test]
    fn validation_and_conversion_agree(text in nearly_a_policy()) {
        bodies::manifests(&text);
    }

    #[test]
    fn reading_never_panics(text in ".{0,200}", at in 0_usize..900, with in "[a-z:{}\\[\\]\n ,0-9-]{0,6}") {
        bodies::manifests(&text);
        for whole in [PROPOSAL, SHIPPED] {
            let mut nearly = whole.to_owned();
            nearly.insert_str(at.min(nearly.len()), &with);
            bodies::manifests(&nearly);
        }
    }
}
