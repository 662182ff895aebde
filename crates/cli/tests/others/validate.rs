//! `netqos validate`.

use std::fs;

use serde_json::Value;

use crate::{assert_code, run, stderr, stdout};

const WRONG: &str = "
apiVersion: k8s.ovn.org/v1alpha1
kind: NetworkQoS
metadata: {name: q, namespace: games}
spec: {priority: 200, egress: [{dscp: 1, bandwidth: {burst: 2}}]}
---
{apiVersion: v1, kind: Secret, metadata: {name: d}}
---
{apiVersion: v1, kind: Pod, metadata: {name: p, annotations: {kubernetes.io/egress-bandwidth: fast}}}
---
kind: [x
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: storage}
spec: {config: '{\"type\": '}
";

/// The proposal's examples, of which three have one name.
const RIGHT: &str = include_str!("../../../k8s/tests/okep-4380.yaml");
const TWICE: &str = ": warning the object is in ";
const NO_NAMESPACE: &str = ": note metadata.namespace: absent: ";

#[test]
fn wrong_objects_end_with_1_and_are_named_by_file_document_and_field() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.yaml"), WRONG).unwrap();
    fs::write(folder.path().join("b.yml"), RIGHT).unwrap();
    fs::write(folder.path().join("c.txt"), "[").unwrap();
    let name = folder.path().to_str().unwrap();
    let output = run(&["validate", "-f", name]);
    assert_code(&output, 1);
    let printed = stdout(&output);
    let lines = printed
        .lines()
        .filter(|line| !line.contains(TWICE) && !line.contains(NO_NAMESPACE));
    let lines: Vec<&str> = lines.collect();
    for (line, expected) in [
        (0, "a.yaml:1, document 1: error spec.priority: 200"),
        (
            1,
            "a.yaml:1, document 1: error spec.egress[0].bandwidth.burst: burst needs rate",
        ),
        (2, "a.yaml:6, document 2: note Secret of v1: not checked"),
        (
            3,
            "a.yaml:8, document 3: error metadata.annotations: annotation kubernetes.io/egress-bandwidth: \"fast\"",
        ),
        (
            4,
            "a.yaml:10, document 4: error cannot read the document: line 11, ",
        ),
        (5, "a.yaml:12, document 5: error spec.config: "),
    ] {
        assert!(lines[line].contains(expected), "{printed}");
    }
    assert_eq!(lines.len(), 6, "{printed}");

    let output = run(&["validate", "-f", name, "-o", "json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&report["checked"], &report["wrong"]),
        (&9.into(), &4.into())
    );
    assert_eq!(
        report["findings"][1]["path"],
        "spec.egress[0].bandwidth.burst"
    );
    assert_eq!(report["findings"][1]["name"], "games/q");
}

#[test]
fn right_objects_end_with_0_and_what_cannot_be_read_with_2() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("right.yaml");
    fs::write(&file, RIGHT).unwrap();
    let output = run(&["validate", "-f", file.to_str().unwrap()]);
    assert_code(&output, 0);
    let printed = stdout(&output);
    assert!(
        printed.lines().all(|line| line.contains(TWICE)),
        "{printed}"
    );
    for arguments in [&["validate"][..], &["validate", "-f", "/nonexistent"]] {
        assert_eq!(run(arguments).status.code(), Some(2));
    }
}

const READ_BY_NETQOS: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: slo-controller-config, namespace: koordinator-system}
data: {resource-qos-config: nonsense}
---
apiVersion: slo.koordinator.sh/v1alpha1
kind: NodeSLO
metadata: {name: node1}
spec: {resourceQOSStrategy: {beClass: {networkQOS: {egressRequest: 50, egressLimit: 20}}}}
---
apiVersion: v1
kind: Pod
metadata: {name: a, annotations: {koordinator.sh/networkQOS: '{', netqos.io/egress-burst: 1M}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec: {template: {metadata: {annotations: {kubernetes.io/egress-bandwidth: 10Mbit}}}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: c}
spec: {jobTemplate: {spec: {template: {metadata: {annotations: {kubernetes.io/egress-bandwidth: 10Mbit}}}}}}
---
apiVersion: v1
kind: Node
metadata: {name: node1, annotations: {node.koordinator.sh/network-bandwidth: lots}}
---
{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: games}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: other}}
";

#[test]
fn objects_that_webhook_and_agent_read_are_checked_and_others_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.yaml");
    fs::write(&file, READ_BY_NETQOS).unwrap();
    let output = run(&["validate", "-f", file.to_str().unwrap()]);
    assert_code(&output, 1);
    let printed = stdout(&output);
    for (document, says) in [
        (
            1,
            "error data.resource-qos-config: Failed to parse ResourceQOS config",
        ),
        (
            2,
            "error spec (egress): best-effort: a request of 50 % is above the limit of 20 %",
        ),
        (
            3,
            "error metadata.annotations: annotation netqos.io/egress-burst: \"1M\" has no effect",
        ),
        (
            3,
            "error metadata.annotations: annotation koordinator.sh/networkQOS: is no JSON object",
        ),
        (
            4,
            "error spec.template.metadata.annotations: annotation kubernetes.io/egress-bandwidth: \"10Mbit\"",
        ),
        (
            4,
            "; the container runtime will not start pods of this template",
        ),
        (
            5,
            "error spec.jobTemplate.spec.template.metadata.annotations: annotation kubernetes.io/egress",
        ),
        (
            6,
            "error metadata.annotations[node.koordinator.sh/network-bandwidth]: \"lots\": ",
        ),
        (7, "note Secret of v1: not checked"),
        (8, "note ConfigMap of v1: not checked"),
    ] {
        let of = format!(", document {document}: ");
        let mut lines = printed.lines().filter(|line| line.contains(&of));
        assert!(lines.any(|line| line.contains(says)), "{says}: {printed}");
    }
    let summary = "netqos: 6 checked, 6 wrong, 2 not checked: Secret games/s, ConfigMap other\n";
    assert!(stderr(&output).ends_with(summary), "{}", stderr(&output));
    let output = run(&["validate", "-f", file.to_str().unwrap(), "-o", "json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["notChecked"][0], "Secret games/s");
}

/// Field findings FF8 and FF9: wrong values of classes, and a limit where nothing reads it.
const OF_CLASSES: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: kor, namespace: shop, labels: {koordinator.sh/qosClass: be}, annotations: {koordinator.sh/networkQOS: '{"EgressLimit": "1Gbps"}'}}
spec: {nodeName: node1, containers: [{name: c, image: i}]}
---
apiVersion: v1
kind: Node
metadata: {name: node1, labels: {netqos.io/class-backend: kernal}, annotations: {node.koordinator.sh/network-bandwidth: 25Gbps}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: slo-controller-config, namespace: koordinator-system}
data: {resource-qos-config: '{"clusterStrategy": {"beClass": {"networkQOS": {"enable": true, "egressLimit": "1Gbps"}}}}', system-config: '{"clusterStrategy": {"totalNetworkBandwidth": "10Gbps"}}'}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, annotations: {kubernetes.io/egress-bandwidth: 10M}}
spec: {template: {metadata: {annotations: {kubernetes.io/igress-bandwidth: 10M}}}}
"#;

#[test]
fn validate_and_analyze_find_the_same_and_say_what_to_write() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.yaml");
    fs::write(&file, OF_CLASSES).unwrap();
    let file = file.to_str().unwrap();
    let validated = stdout(&run(&["validate", "-f", file]));
    let analyzed = stdout(&run(&["analyze", "-f", file]));
    let many = |text: &str, of: &str| text.lines().filter(|it| it.contains(of)).count();
    assert_eq!(
        (many(&validated, ": error "), many(&validated, ": warning ")),
        (6, 2),
        "{validated}"
    );
    assert_eq!(
        (
            many(&analyzed, "Error ["),
            many(&analyzed, "Warning [NQOS0106]")
        ),
        (6, 2),
        "{analyzed}"
    );
    for says in [
        "metadata.labels[koordinator.sh/qosClass]: \"be\" is no class: write SYSTEM, LSE, LSR, LS or BE, in capitals",
        "annotation koordinator.sh/networkQOS.egressLimit: \"1Gbps\": ",
        "metadata.labels[netqos.io/class-backend]: \"kernal\" divides no lines: write kernel, tc, terway-qos or none",
        "metadata.annotations[node.koordinator.sh/network-bandwidth]: \"25Gbps\": ",
        "write bits per second, like \"10G\"",
        "clusterStrategy.beClass.networkQOS.egressLimit: \"1Gbps\": ",
        "write a rate in bits per second, like \"500M\"",
        "system-config.clusterStrategy.totalNetworkBandwidth: \"10Gbps\": ",
        "metadata.annotations[kubernetes.io/egress-bandwidth]: nothing reads this, and it limits nothing; write \
         kubernetes.io/egress-bandwidth in spec.template.metadata.annotations",
        "annotations[kubernetes.io/igress-bandwidth]: nothing reads this, and it limits nothing; write \
         kubernetes.io/ingress-bandwidth in spec.template.metadata.annotations",
    ] {
        assert!(validated.contains(says), "{says}: {validated}");
        assert!(analyzed.contains(says), "{says}: {analyzed}");
    }
}

#[test]
fn validate_file_not_utf8_checks_the_others() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.yaml"), [0xff, 0xfe]).unwrap();
    fs::write(folder.path().join("b.yaml"), WRONG).unwrap();
    let output = run(&["validate", "-f", folder.path().to_str().unwrap()]);
    assert_code(&output, 2);
    assert!(stderr(&output).contains("a.yaml"), "{}", stderr(&output));
    assert!(
        stdout(&output).contains("spec.priority"),
        "{}",
        stdout(&output)
    );
}

#[test]
fn control_characters_in_names_are_escaped() {
    const FORGED: &str = r#"
apiVersion: k8s.ovn.org/v1alpha1
kind: NetworkQoS
metadata: {name: "q\nnetqos: all is well\e[2J", namespace: games}
spec: {priority: 1, egress: [{dscp: 1}]}
---
kind: "x\nall is well"
"#;
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.yaml"), FORGED).unwrap();
    let path = folder.path().to_str().unwrap();
    for arguments in [
        &["validate", "-f", path][..],
        &["validate", "-f", path, "-o", "table"],
        &["analyze", "-f", path],
        &["plan", "--node", "node1", "--manifests", path],
    ] {
        let output = run(arguments);
        let all = format!("{}{}", stdout(&output), stderr(&output));
        assert!(!all.contains('\u{1b}'), "{arguments:?}: {all}");
        let is_forged = |line: &str| line.trim_start().starts_with("netqos: all is well");
        assert!(!all.lines().any(is_forged), "{arguments:?}: {all}");
        assert!(
            !all.lines().any(|line| line.starts_with("all is well")),
            "{arguments:?}: {all}"
        );
    }
}

#[test]
fn first_of_two_objects_with_one_name_counts() {
    const TWICE: &str = "
apiVersion: k8s.ovn.org/v1alpha1
kind: NetworkQoS
metadata: {name: q, namespace: games}
spec: {priority: 1, egress: [{dscp: 1}]}
---
apiVersion: k8s.ovn.org/v1alpha1
kind: NetworkQoS
metadata: {name: q, namespace: games}
spec: {priority: 200, egress: [{dscp: 1}]}
---
# The same kind and name in another API group.
{apiVersion: example.com/v1, kind: NetworkQoS, metadata: {name: q, namespace: games}}
---
kind: List
apiVersion: v1
items:
- {apiVersion: v1, kind: Namespace, metadata: {name: games}}
- {apiVersion: v1, kind: Namespace, metadata: {name: games}}
";
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.yaml"), TWICE).unwrap();
    let path = folder.path().to_str().unwrap();
    let printed = stdout(&run(&["validate", "-f", path]));
    let places = |line: &&str| line.contains(" the object is in ");
    let warned: Vec<&str> = printed.lines().filter(places).collect();
    let [second, item] = warned[..] else {
        panic!("{printed}")
    };
    assert!(second.contains("a.yaml:6, document 2: "), "{printed}");
    assert!(
        item.contains(", document 4: ") && item.contains("items[0]"),
        "{printed}"
    );
    let printed = stdout(&run(&["analyze", "-f", path]));
    assert!(printed.contains("the first one counts"), "{printed}");
    assert!(!printed.contains("200"), "{printed}");
}

/// Documents with one error each, and what is printed of it.
const FAULTS: &[(&str, &str)] = &[
    (
        "{apiVersion: k8s.ovn.org/v1alpha1, kind: NetworkQOS, metadata: {name: q, namespace: a}}",
        "error kind: k8s.ovn.org has no kind NetworkQOS; write NetworkQoS",
    ),
    (
        "{apiVersion: v1, kind: List, items: {a: b}}",
        "error items: a list of objects is expected, not an object",
    ),
    (
        "[1]",
        "error an object is expected, not an array; a document holds one object or a List",
    ),
    (
        "{apiVersion: v1, kind: Pod, metadata: {name: n, namespace: a}}",
        "error metadata.name: invalid type: boolean `false`, expected a string; YAML reads y, n",
    ),
    (
        "{apiVersion: netqos.io/v1alpha1, kind: NetworkQoSQuota, metadata: {name: A_b}, spec: {}}",
        "error metadata.name: \"A_b\" is not a name: use at most 253 lower-case letters",
    ),
    (
        "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: a, annotations:\n\
      {k8s.v1.cni.cncf.io/network-status: '[{'}}}",
        "warning metadata.annotations[k8s.v1.cni.cncf.io/network-status]: not a JSON list of networks: ",
    ),
    (
        "{apiVersion: v1, kind: Pod, metadata: {name: p2}}",
        "note metadata.namespace: absent: the object counts as one of the namespace default",
    ),
    (
        "a: 1\nb:\n  c: 1\n  c: 2",
        "error cannot read the document: line LINE+3, column 3: the key \"c\" is there twice; remove one",
    ),
    (
        "a: .inf",
        "line LINE+0, column 4: .inf is not a finite number; write one",
    ),
    (
        "a: &x\n- *x",
        "an alias (*NAME) is inside the value that it refers to; write the value out",
    ),
    (
        "{a: 1}\n{b: 2}",
        "the document goes on behind its end; check the indentation, or put --- between",
    ),
    ("a: *b", "an alias (*NAME) refers to no anchor (&NAME)"),
    (
        "a: &a [1,1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\n\
      c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\n\
      e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]",
        "the document is too large: its aliases (*NAME) expand to too many values; write aliases out",
    ),
];

#[test]
fn every_fault_is_named_with_its_line_and_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.yaml");
    let texts: Vec<&str> = FAULTS.iter().map(|(text, _)| *text).collect();
    fs::write(&file, texts.join("\n---\n")).unwrap();
    let printed = stdout(&run(&["validate", "-f", file.to_str().unwrap()]));
    // A mark is part of what follows it.
    let mut line = 1;
    for (document, (text, expected)) in (1..).zip(FAULTS) {
        let content = line + usize::from(document > 1);
        let mut expected = (*expected).to_owned();
        for further in 0..4 {
            expected =
                expected.replace(&format!("LINE+{further}"), &(content + further).to_string());
        }
        let place = format!("a.yaml:{line}, document {document}: ");
        let mut lines = printed.lines().filter(|it| it.contains(&place));
        assert!(
            lines.any(|it| it.contains(&expected)),
            "{place}{expected}\n{printed}"
        );
        line = content + text.lines().count();
    }
    for leaked in ["DuplicateKeyPolicy", "Nodes {", "policy", "weak recursion"] {
        assert!(!printed.contains(leaked), "{leaked}: {printed}");
    }
}

#[test]
fn key_twice_in_json_is_an_error_as_in_yaml() {
    const JSON: &str = r#"{"apiVersion": "k8s.ovn.org/v1alpha1", "kind": "NetworkQoS",
 "metadata": {"name": "q", "namespace": "games"},
 "spec": {"priority": 1, "priority": 2, "egress": [{"dscp": 1}]}}
{"apiVersion": "v1", "kind": "Secret"}"#;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.json");
    fs::write(&file, JSON).unwrap();
    let output = run(&["validate", "-f", file.to_str().unwrap()]);
    let printed = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{printed}");
    let twice =
        "a.json:1, document 1: error cannot read the document: the key \"priority\" is there twice";
    assert!(printed.contains(twice), "{printed}");
    assert!(
        printed.contains("a.json:4, document 2: note Secret"),
        "{printed}"
    );
    // The object is read all the same, and is one that is wrong.
    fs::write(&file, JSON.replace("2, ", "200, ")).unwrap();
    let output = run(&["validate", "-f", file.to_str().unwrap()]);
    assert!(stdout(&output).contains("error spec.priority: 200 "));
    assert!(stderr(&output).contains("1 checked, 1 wrong"), "{output:?}");
}

#[test]
fn file_that_an_agent_leaves_out_is_an_error() {
    use std::os::unix::ffi::OsStrExt as _;
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.yaml"), WRONG).unwrap();
    let name = std::ffi::OsStr::from_bytes(b"b\xff.yaml");
    fs::write(folder.path().join(name), WRONG).unwrap();
    std::os::unix::fs::symlink("nowhere", folder.path().join("c.yaml")).unwrap();
    let output = run(&["validate", "-f", folder.path().to_str().unwrap()]);
    assert_code(&output, 2);
    let said = stderr(&output);
    assert!(said.contains("the file name is not UTF-8"), "{said}");
    assert!(
        said.contains("c.yaml: a link to a file that does not exist"),
        "{said}"
    );
    assert!(stdout(&output).contains("spec.priority"));
}
