//! All other kinds, and documents that are broken.

use std::fmt::Write as _;

use netqos_core::{ObjectName, ObjectRef};
use netqos_k8s::{Object, documents, objects_from_yaml};
use serde_json::json;

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
  metadata: {name: all, namespace: games, labels: {a: b},
    ownerReferences: [{apiVersion: k8s.ovn.org/v1, kind: ClusterUserDefinedNetwork, name: all, uid: u}]}
  spec: {config: '{"cniVersion": "1.0.0", "name": "cluster_udn_all", "type": "ovn-k8s-cni-overlay"}'}
- {apiVersion: k8s.ovn.org/v1, kind: UserDefinedNetwork, metadata: {name: u, namespace: games}}
- {apiVersion: k8s.ovn.org/v1, kind: ClusterUserDefinedNetwork, metadata: {name: all}}
- {apiVersion: apps/v1, kind: Deployment, metadata: {name: d}}
"#,
    );
    let mut said = String::new();
    for object in objects {
        match object.unwrap() {
            Object::Namespace(one) => write!(said, "{} {:?};", one.name, one.labels),
            Object::Node(node) => write!(said, "{};", node.name),
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
            Object::Network(one) | Object::UserNetwork(one) => {
                write!(said, "{} {} {};", one.name, one.cni_name, one.key())
            }
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
             games/s-1 s {{10.0.0.1}} 5353;\ngames/all cluster_udn_all */all;\n\
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

/// Objects of these kinds have no namespace.
#[test]
fn error_about_cluster_scoped_object_names_no_namespace() {
    let text = "{apiVersion: v1, kind: Namespace, metadata: {name: z, labels: {a: [b]}}}\n---\n\
        {apiVersion: v1, kind: Node, metadata: {name: worker, labels: {a: [b]}}}\n---\n\
        {apiVersion: v1, kind: Pod, metadata: {name: p, labels: {a: [b]}}}\n";
    let errors = objects_from_yaml(text).into_iter();
    let errors: Vec<String> = errors.map(|it| it.unwrap_err().to_string()).collect();
    for (error, object) in errors
        .iter()
        .zip(["Namespace z: ", "Node worker: ", "Pod default/p: "])
    {
        assert!(error.contains(&format!("), {object}")), "{error}");
    }
    assert_eq!(errors.len(), 3);
}

/// What `kubectl apply` sends to a server.
#[test]
fn numbers_are_what_kubectl_takes_them_for() {
    for (text, number) in [
        ("10", json!(10)),
        ("010", json!(8)),
        ("-010", json!(-8)),
        ("0_17", json!(15)),
        ("0o17", json!(15)),
        ("1_000", json!(1000)),
        ("0x1F", json!(31)),
        ("08", json!(8.0)),
        ("1e3", json!(1000.0)),
    ] {
        let documents = documents(&format!("a: {text}"));
        assert_eq!(documents[0].value, Ok(json!({"a": number})), "{text}");
    }
}
