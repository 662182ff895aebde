//! Several nodes, and what is changed while something is measured.

use super::*;

const FOLDER: &str = r#"
{apiVersion: v1, kind: Node, metadata: {name: newer}}
---
{apiVersion: v1, kind: Node, metadata: {name: older, labels: {netqos.io/class-backend: tc}}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: slo-controller-config, namespace: kube-system}, data: {}}
---
{apiVersion: v1, kind: Pod, metadata: {name: a}}
---
{apiVersion: v1, kind: Pod, metadata: {name: b}, spec: {nodeName: older}}
---
{apiVersion: v1, kind: Pod, metadata: {name: c}, spec: {nodeName: older}}
---
apiVersion: lab.netqos.io/v1alpha1
kind: Scenario
metadata: {name: s}
spec:
  outside: [{name: internet, addresses: [203.0.113.10]}]
  measurements:
  - name: changed
    kind: tcp
    from: b
    to: internet
    underLoad: {from: c, to: internet, before: 2s}
    changes:
    - {at: 3s, patch: {kind: Node, metadata: {name: older, labels: {x: y}}}}
    - {at: 2s, title: limited, patch: {kind: Pod, metadata: {name: b, annotations: {x: y}}}}
"#;

#[test]
fn pods_are_on_the_nodes_that_they_name_and_else_on_the_first() {
    let manifests = folder(FOLDER).unwrap();
    assert_eq!(manifests.objects.nodes(), ["newer", "older"]);
    let names = |node: &str| -> Vec<String> {
        let pods = manifests.pods_of(node);
        pods.map(|pod| pod.name().to_owned()).collect()
    };
    assert_eq!(names("newer"), ["a"]);
    assert_eq!(names("older"), ["b", "c"]);

    // Of one node, whatever cluster they were taken from; its name is that of its object.
    let one = FOLDER.replacen(
        "{apiVersion: v1, kind: Node, metadata: {name: newer}}",
        "",
        1,
    );
    let elsewhere = one.replace("nodeName: older", "nodeName: worker-7");
    let manifests = folder(&elsewhere).unwrap();
    assert_eq!(manifests.objects.nodes(), ["older"]);
    assert_eq!(manifests.pods_of("older").count(), 3);
    assert_eq!(folder(OBJECTS).unwrap().objects.nodes(), ["node"]);
}

#[test]
fn changes_are_in_the_order_of_time() {
    let manifests = folder(FOLDER).unwrap();
    let measurement = &manifests.scenario.measurements[0];
    let changes = measurement.changes.iter();
    let changes: Vec<_> = changes
        .map(|it| (it.at.as_secs(), it.kind.as_str(), it.title.as_str()))
        .collect();
    assert_eq!(changes, [(2, "Pod", "limited"), (3, "Node", "Node older")]);
    let load = measurement.load.as_ref().unwrap();
    assert_eq!(
        (load.before.as_millis(), load.after.as_millis()),
        (2000, 300)
    );
}

#[test]
fn what_does_not_fit_together_is_told() {
    for (from, to, message) in [
        (
            "nodeName: older}}\n---\napi",
            "nodeName: oldest}}\n---\napi",
            "spec.nodeName: pod c is on node \"oldest\"; there are newer, older",
        ),
        (
            "{from: c,",
            "{from: a,",
            "spec.measurements[0].to: there is nothing between the nodes newer and older",
        ),
        (
            "name: newer",
            "name: Newer",
            "metadata.name: \"Newer\" is not a name",
        ),
        (
            "at: 3s",
            "at: 5s",
            "spec.measurements[0].changes[0].at: the measurement is over then",
        ),
        (
            "name: older, labels: {x",
            "name: old, labels: {x",
            "changes[0].patch.metadata.name: there is no Node old in this folder",
        ),
        (
            "patch: {kind: Pod, ",
            "patch: {",
            "changes[1].patch.kind: missing",
        ),
        (
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: slo-controller-config, namespace: kube-system}, data: {}}",
            "",
            "spec.measurements[0].changes: there is no agent that would follow",
        ),
        (
            "    from: b",
            "    from: b\n    compare: true",
            "spec.measurements[0].compare: what is on one of several nodes",
        ),
    ] {
        let text = FOLDER.replacen(from, to, 1);
        assert_ne!(text, FOLDER, "{from}");
        let error = folder(&text).unwrap_err().to_string();
        assert!(error.contains(message), "{to}: {error}");
    }
}
