//! All other kinds, and documents that are broken.

use std::fmt::Write as _;

use netqos_core::{ObjectName, ObjectRef};
use netqos_k8s::{Object, documents, objects_from_yaml};
use netqos_promises::{kubectl_rows, without_head};
use serde_json::Value;

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

/// `netqos-kubernetes` has the same table read by kubectl.
#[test]
fn yaml_and_json_are_read_as_kubectl_reads_them() {
    for (number, row) in kubectl_rows().into_iter().enumerate() {
        let documents = documents(&row.text).into_iter();
        let read = documents.map(|it| it.value.map_or(Value::Null, |it| without_head(number, it)));
        let read: Vec<Value> = read.collect();
        match &row.deviation {
            Some(deviation) => assert_eq!(&read, deviation, "{:?}", row.text),
            // What kubectl does not read hides no document.
            None if row.is_refused => assert!(
                read.contains(&Value::Null) && read.starts_with(&row.objects),
                "{:?}: {read:?}",
                row.text
            ),
            None => assert_eq!(read, row.objects, "{:?}", row.text),
        }
    }
}

#[test]
fn broken_document_is_named_by_its_line_and_hides_no_other() {
    for (text, expected) in [
        (
            "a: 1\n---\nb: [\n--- # c\nc: 1",
            &["", "2: line 3, column 4: ", ""][..],
        ),
        (
            "{\"a\": 1}\n\n{\"b\":\n 1 c: }\n{\"d\": 1}{\"e\": 1}",
            &["", "3: line 4, ", "", ""],
        ),
        (
            "{\"a\": 1}\n{\"b\": [}\n---\nc: 1\n",
            &["", "2: line 2, ", ""],
        ),
        (
            "a: 1\n--- {b: 1}\n---\nc: 'x\n---\nd: 1",
            &[
                "",
                "2: line 2, column 4: a text follows ---",
                "3: line 4, column 4: ",
                "",
            ],
        ),
        (
            "%YAML 1.1\n---\na: 1",
            &["1: line 1, column 1: kubectl reads no directives", ""],
        ),
        ("a:\n\tb: 1", &["1: line 2, column 2: a tab indents"]),
        ("a: [x?]", &["1: line 1, column 5: a text between brackets"]),
    ] {
        let documents = documents(text);
        assert_eq!(documents.len(), expected.len(), "{documents:?}");
        for (document, expected) in documents.iter().zip(expected) {
            match &document.value {
                Ok(_) => assert_eq!(*expected, "", "{text:?}: {document:?}"),
                Err(why) => {
                    let why = format!("{}: {why}", document.line);
                    assert!(
                        why.starts_with(expected) && !expected.is_empty(),
                        "{text:?}: {why}"
                    );
                }
            }
        }
    }
}

/// What kubectl leaves out in silence is named.
#[test]
fn key_twice_and_text_behind_the_end_are_named() {
    for (text, expected) in [
        (
            "a: 1\nb: {c: 1,\n  c: 2}",
            "line 3, column 3: the key \"c\" is there twice",
        ),
        ("{\"a\": 1, \"a\": 2}", "the key \"a\" is there twice"),
        (
            "{a: 1}\nb: 2",
            "line 2, column 1: the document goes on behind its end",
        ),
        (
            "a: 1\n...\n\nb: 2",
            "line 4, column 1: the document goes on behind its end",
        ),
    ] {
        let documents = documents(text);
        assert!(documents[0].value.is_ok(), "{documents:?}");
        let left_out = &documents[0].left_out;
        assert!(
            left_out.len() == 1 && left_out[0].starts_with(expected),
            "{text:?}: {left_out:?}"
        );
    }
    assert!(
        documents("a: &a {b: 1}\nc: {<<: *a, b: 2}\n...\n")[0]
            .left_out
            .is_empty()
    );
}

/// Aliases make neither a document nor a file of many documents large, and depth is bounded.
#[test]
fn hostile_documents_are_refused_soon() {
    let wide = format!("a: &a [{}]\nb: [*a, *a, *a, *a, *a]", "1,".repeat(20_000));
    let is_read = |text: &str| documents(text).iter().filter(|it| it.value.is_ok()).count();
    assert_eq!(
        (is_read(&wide), is_read(&[&*wide; 9].join("\n---\n"))),
        (1, 3)
    );
    let deep = |depth: usize| "- ".repeat(60) + &"[".repeat(depth) + &"]".repeat(depth);
    assert_eq!((is_read(&deep(67)), is_read(&deep(68))), (1, 0));
    let long = format!("a: &a {}\nb: [{}]", "x".repeat(100_000), "*a,".repeat(1000));
    assert_eq!(is_read(&long), 0);
    let nested = (0..200).fold("1".to_owned(), |inner, level| {
        format!("[&a{level} {inner}, {}]", "1,".repeat(99))
    });
    for text in [
        nested,
        (0..60).fold("- &a0 0\n".to_owned(), |text, at| {
            let (open, close) = ("[".repeat(100), "]".repeat(100));
            text + &format!("- &a{} {open}*a{at}{close}\n", at + 1)
        }),
        "[".repeat(1_000_000),
        "{a: ".repeat(1_000_000),
        "- ".repeat(1_000_000),
        "{\n".repeat(100_000),
        "a: 'x'#c\n".repeat(10_000),
        format!("a: \"{}\"", "\\'".repeat(100_000)),
    ] {
        assert_eq!(is_read(&text), 0);
    }
}
