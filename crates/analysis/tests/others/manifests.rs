//! Manifests by themselves and over a cluster, and one namespace of it.

use std::collections::BTreeSet;

use netqos_analysis::{Snapshot, analyze};
use serde_json::json;

use crate::objects::{object, policy, to, web};

#[test]
fn of_manifests_the_file_and_the_document_are_named() {
    let mut snapshot = Snapshot::default();
    let good = policy("games/one", "web", 5, &json!([{"dscp": 1}]));
    let bad = policy("games/two", "web", 5, &json!([{"dscp": 64}]));
    let text = format!("{good}\n---\n{bad}\n---\nkind: [\n---\n{good}\n");
    snapshot.put_text("p.yaml", &text);
    let messages = analyze(&snapshot, None).into_iter();
    let messages: Vec<String> = messages.map(|it| it.to_string()).collect();
    let starts = [
        "Error [NQOS0102] (File p.yaml, p.yaml:4, document 3) cannot read the document: line 5, ",
        "Error [NQOS0101] (NetworkQoS games/two, p.yaml:2, document 2) spec.egress[0].dscp: ",
        "Warning [NQOS0105] (NetworkQoS games/one, p.yaml:6, document 4) it is in p.yaml:1, document 1, too",
    ];
    assert_eq!(messages.len(), starts.len(), "{messages:#?}");
    for (message, start) in messages.iter().zip(starts) {
        assert!(message.starts_with(start), "{message}");
    }
}

#[test]
fn manifests_are_laid_over_the_cluster() {
    let one = |priority| policy("games/one", "web", priority, &json!([to("10.0.0.0/8")]));
    let mut snapshot = Snapshot::of_cluster();
    for object in [
        web("games/a"),
        policy("games/two", "web", 6, &json!([to("10.0.0.0/8")])),
        one(7),
    ] {
        snapshot.put(&object);
    }
    let codes = |snapshot: &Snapshot| {
        let messages = analyze(snapshot, None).into_iter();
        let of_rules = messages.filter(|it| it.code.code == "NQOS0204");
        let subjects: Vec<String> = of_rules.map(|it| it.subject.to_string()).collect();
        subjects
    };
    assert_eq!(codes(&snapshot), ["NetworkQoS games/two"]);
    snapshot.put_text("p.json", &one(5).to_string());
    assert_eq!(codes(&snapshot), ["NetworkQoS games/one"]);
}

#[test]
fn of_a_namespace_only_its_own_is_said_and_what_is_of_the_cluster() {
    let mut snapshot = Snapshot::of_cluster();
    for object in [
        policy("games/one", "web", 101, &json!([{"dscp": 1}])),
        policy("shop/one", "web", 101, &json!([{"dscp": 1}])),
        object(
            "NetworkQoSQuota",
            "q",
            &json!({"spec": {"priority": {"max": 101}}}),
        ),
    ] {
        snapshot.put(&object);
    }
    let messages = analyze(&snapshot, Some("shop")).into_iter();
    let subjects: BTreeSet<String> = messages.map(|it| it.subject.to_string()).collect();
    let right = ["NetworkQoS shop/one", "NetworkQoSQuota q"];
    assert_eq!(subjects, right.map(str::to_owned).into());
}
