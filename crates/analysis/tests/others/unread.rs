//! What nobody has read is not missed.

use netqos_analysis::{Extent, Snapshot, analyze, describe};
use netqos_core::ObjectName;
use serde_json::{Value, json};

use crate::objects::{object, pod, policy, to, web};

/// The codes that are said of these objects, where of some kinds no more was read.
fn codes(objects: &[Value], limits: &[(&str, Extent)]) -> Vec<&'static str> {
    let messages = analyze(&snapshot(objects, limits), None).into_iter();
    messages.map(|it| it.code.code).collect()
}

fn snapshot(objects: &[Value], limits: &[(&str, Extent)]) -> Snapshot {
    let mut snapshot = Snapshot::of_cluster();
    objects.iter().for_each(|it| snapshot.put(it));
    for (kind, extent) in limits {
        snapshot.limit(kind, extent.clone());
    }
    snapshot
}

fn one(egress: &Value) -> Value {
    policy("games/one", "web", 5, egress)
}

#[test]
fn what_depends_on_a_kind_that_was_not_read_is_not_said() {
    let ten = json!([to("10.0.0.0/8")]);
    let to_pods = |selector: Value| one(&json!([{"dscp": 1, "classifier": {"to": [selector]}}]));
    let mut for_a_network = one(&ten);
    for_a_network["spec"]["netAttachRefs"] =
        json!([{"kind": "NetworkAttachmentDefinition", "namespace": "games", "name": "red"}]);
    let mut chosen = one(&ten);
    chosen["spec"]["networkSelectors"] = json!([{
        "networkSelectionType": "NetworkAttachmentDefinitions",
        "networkAttachmentDefinitionSelector": {
            "namespaceSelector": {}, "networkSelector": {"matchLabels": {"net": "blue"}}
        }
    }]);
    let quota = object(
        "NetworkQoSQuota",
        "tenants",
        &json!({"spec": {"priority": {"max": 4}}}),
    );
    let report = |policies: Value| {
        let of = json!({"agentVersion": "0.1.0", "policies": policies, "problems": []});
        object("NetworkQoSNodeReport", "node1", &of)
    };
    let app = json!({"matchLabels": {"app": "db"}});
    let db = json!({"podSelector": app});
    let anywhere = json!({"podSelector": app, "namespaceSelector": {}});
    let wider = policy("games/two", "web", 6, &json!([{"dscp": 2}]));
    let of_games = || Extent::Namespace("games".to_owned());
    for (code, objects, kind, extent) in [
        (
            "NQOS0401",
            vec![one(&ten), web("games/a")],
            "NetworkQoSNodeReport",
            Extent::Nothing,
        ),
        (
            "NQOS0104",
            vec![for_a_network.clone(), web("games/a")],
            "NetworkAttachmentDefinition",
            of_games(),
        ),
        (
            "NQOS0104",
            vec![for_a_network, web("games/a")],
            "UserDefinedNetwork",
            Extent::Nothing,
        ),
        (
            "NQOS0209",
            vec![chosen, web("games/a")],
            "NetworkAttachmentDefinition",
            Extent::Nothing,
        ),
        (
            "NQOS0103",
            vec![one(&ten), web("games/a"), quota],
            "Namespace",
            Extent::Nothing,
        ),
        ("NQOS0202", vec![one(&ten)], "Pod", Extent::Nothing),
        (
            "NQOS0202",
            vec![one(&ten)],
            "Pod",
            Extent::Namespace("shop".to_owned()),
        ),
        (
            "NQOS0201",
            vec![one(&ten), pod("games/b", "db", &json!({}))],
            "Pod",
            Extent::Nothing,
        ),
        (
            "NQOS0203",
            vec![to_pods(db), web("games/a")],
            "Pod",
            Extent::Nothing,
        ),
        (
            "NQOS0203",
            vec![to_pods(anywhere.clone()), web("games/a")],
            "Pod",
            of_games(),
        ),
        (
            "NQOS0203",
            vec![to_pods(anywhere), web("games/a")],
            "Namespace",
            Extent::Nothing,
        ),
        (
            "NQOS0204",
            vec![one(&ten), wider, web("games/a")],
            "Pod",
            Extent::Nothing,
        ),
        (
            "NQOS0402",
            vec![one(&ten), web("games/a"), report(json!([]))],
            "NetworkQoSQuota",
            Extent::Nothing,
        ),
        (
            "NQOS0403",
            vec![report(json!([])), object("Node", "node2", &json!({}))],
            "Node",
            Extent::Nothing,
        ),
    ] {
        let all = codes(&objects, &[]);
        assert!(all.contains(&code), "{code}: {all:?}");
        let some = codes(&objects, &[(kind, extent.clone())]);
        assert!(!some.contains(&code), "{code} without {kind}: {some:?}");
    }
}

#[test]
fn of_a_namespace_that_was_read_all_is_said_that_is_in_it() {
    let of_games = || Extent::Namespace("games".to_owned());
    let limits = [
        ("Pod", of_games()),
        ("NetworkAttachmentDefinition", of_games()),
        ("Node", Extent::Nothing),
        ("NetworkQoSNodeReport", Extent::Nothing),
    ];
    let own = json!([{"dscp": 1, "classifier": {"to": [
        {"podSelector": {"matchLabels": {"app": "db"}}}
    ]}}]);
    assert_eq!(codes(&[one(&own), web("games/a")], &limits), ["NQOS0203"]);
    let other = pod("games/b", "db", &json!({}));
    assert_eq!(
        codes(&[one(&json!([to("10.0.0.0/8")])), other], &limits),
        ["NQOS0201"]
    );
}

#[test]
fn a_pod_whose_reports_were_not_read_is_described_without_an_error() {
    let objects = [one(&json!([to("10.0.0.0/8")])), web("games/a")];
    let name = ObjectName::new("games", "a");
    let all = describe(&snapshot(&objects, &[]), &name).unwrap();
    assert!(
        all.problems.iter().any(|it| it.contains("no agent there")),
        "{all:?}"
    );
    let limits = [("NetworkQoSNodeReport", Extent::Nothing)];
    let some = describe(&snapshot(&objects, &limits), &name).unwrap();
    assert_eq!(some.problems, [""; 0], "{some:?}");
    let [policy] = &some.policies[..] else {
        panic!("{some:?}");
    };
    assert_eq!(policy.in_force, None);
    assert!(policy.why.contains("reports were not read"), "{policy:?}");
}
