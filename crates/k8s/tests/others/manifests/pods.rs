//! Pods: their addresses and limits, and when they are finished.

use std::collections::BTreeSet;

use netqos_core::objects::{NetworkName, Pod};
use netqos_core::{ObjectName, ObjectRef, Problem, Reason};
use netqos_k8s::{Object, objects_from_yaml};

fn pod(text: &str) -> (Pod, Vec<Problem>) {
    match objects_from_yaml(text).remove(0).unwrap() {
        Object::Pod(pod, problems, ..) => (*pod, problems),
        other => panic!("{other:?}"),
    }
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
fn older_names_of_status_and_definition_are_read() {
    let with = |annotations: &str| {
        pod(&format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: p, annotations: {{{annotations}}}}}, status: {{podIP: 10.0.0.5}}}}"
        ))
    };
    let status = |name: &str, address: &str| {
        format!(r#"k8s.v1.cni.cncf.io/{name}: '[{{"name": "a/b", "ips": ["{address}"]}}]'"#)
    };
    let (old, new) = (
        status("networks-status", "192.0.2.1"),
        status("network-status", "192.0.2.2"),
    );
    for (annotations, address) in [
        (old.clone(), "192.0.2.1"),
        (format!("{old}, {new}"), "192.0.2.2"),
    ] {
        let (pod, problems) = with(&annotations);
        assert_eq!(problems, []);
        let addresses = &pod.addresses[1].addresses;
        assert!(
            addresses.contains(&address.parse().unwrap()),
            "{annotations}: {pod:?}"
        );
    }
    // As the specification's drafts had it.
    let text = "{apiVersion: kubernetes.cni.cncf.io/v1, kind: Network, metadata: {name: net}}";
    match objects_from_yaml(text).remove(0).unwrap() {
        Object::Network(network) => assert_eq!(network.name, ObjectName::new("default", "net")),
        other => panic!("{other:?}"),
    }
}

/// A tenant who may patch pods may write each of these.
#[test]
fn forged_annotations_give_no_address_of_the_default_network_and_none_without_a_sandbox() {
    let forged = [
        r#"k8s.v1.cni.cncf.io/network-status: '[{"name": "cbr0", "interface": "eth0", "ips": ["10.0.0.9"], "default": true}]'"#,
        r#"k8s.v1.cni.cncf.io/network-status: '[{"name": "cbr0", "interface": "eth0", "ips": ["10.0.0.9"]}]'"#,
        r#"k8s.v1.cni.cncf.io/network-status: '[{"name": "", "interface": "eth0", "ips": ["10.0.0.9"]}]'"#,
        r#"k8s.ovn.org/pod-networks: '{"default": {"ip_addresses": ["10.0.0.9/24"]}}'"#,
        r#"k8s.v1.cni.cncf.io/network-status: '[{"name": "a/b", "ips": ["192.0.2.9"]}]'"#,
        r#"k8s.ovn.org/pod-networks: '{"a/b": {"ip_addresses": ["192.0.2.9/24"]}}'"#,
    ];
    let with = |annotations: &str, status: &str| {
        let (pod, problems) = pod(&format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: p, annotations: {{{annotations}}}}}, status: {status}}}"
        ));
        assert_eq!(problems, []);
        pod.addresses
    };
    for annotation in forged {
        assert_eq!(with(annotation, "{phase: Pending}"), [], "{annotation}");
        let there = with(annotation, "{podIP: 10.0.0.5}");
        let default = there.iter().filter(|it| it.network == NetworkName::Default);
        let default: Vec<_> = default.flat_map(|it| &it.addresses).collect();
        let own: std::net::IpAddr = "10.0.0.5".parse().unwrap();
        assert_eq!(default, [&own], "{annotation}");
        assert!(
            there
                .iter()
                .all(|it| !matches!(it.network, NetworkName::Cni(_))),
            "{annotation}: {there:?}"
        );
    }
    // A network that network-status does not list.
    let listed =
        r#"k8s.v1.cni.cncf.io/network-status: '[{"name": "a/b", "ips": ["192.0.2.1"]}]', "#;
    let both = format!(
        r#"{listed}k8s.ovn.org/pod-networks: '{{"c/d": {{"ip_addresses": ["192.0.2.9/24"]}}}}'"#
    );
    let found = with(&both, "{podIP: 10.0.0.5}");
    let networks: Vec<_> = found.iter().map(|it| it.network.clone()).collect();
    let of = NetworkName::Attachment(ObjectName::new("a", "b"));
    assert_eq!(networks, [NetworkName::Default, of]);
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

/// One of which nothing is said, as in a manifest that somebody has written, does not wait for anything.
#[test]
fn a_pod_starts_as_long_as_it_is_pending_and_nothing_of_it_is_there() {
    let waiting = "containerStatuses: [{name: c, image: i, imageID: '', ready: false, restartCount: 0, state: {waiting: {}}}]";
    let running = waiting.replace("waiting", "running");
    let of_init = running.replace("containerStatuses", "initContainerStatuses");
    for (status, starting) in [
        ("", false),
        ("phase: Pending", true),
        ("phase: Running", false),
        ("phase: Unknown", false),
        ("phase: Pending, podIP: 10.0.0.5", false),
        (&format!("phase: Pending, {waiting}"), true),
        (&format!("phase: Pending, {running}"), false),
        (&format!("phase: Pending, {of_init}"), false),
    ] {
        let text =
            format!("{{apiVersion: v1, kind: Pod, metadata: {{name: p}}, status: {{{status}}}}}");
        assert_eq!(pod(&text).0.starting, starting, "{text}");
    }
}
