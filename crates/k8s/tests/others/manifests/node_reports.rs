//! Reports of nodes, as agents write them and the controller reads them.

use netqos_core::{NodeReport, ObjectName, PolicyVersion, ReportedProblem};
use netqos_k8s::{NetworkQoSNodeReport, ResourceSchema, convert, definitions};
use serde_json::Value;

fn problem(number: usize) -> ReportedProblem {
    ReportedProblem {
        kind: "Pod".to_owned(),
        object: ObjectName::new("games", &format!("pod-{number}")),
        reason: "KernelFeatureMissing".to_owned(),
        message: "there is no TBF".to_owned(),
    }
}

fn version(uid: Option<&str>, generation: i64) -> PolicyVersion {
    PolicyVersion {
        uid: uid.map(Into::into),
        generation,
    }
}

fn report() -> NodeReport {
    NodeReport {
        node: "node1".into(),
        agent: "0.1.0".to_owned(),
        pod: Some("netqos-agent-x7k2p".into()),
        policies: [
            (ObjectName::new("games", "free"), version(Some("f-1"), 3)),
            (ObjectName::new("shop", "all"), version(None, 1)),
        ]
        .into(),
        problems: vec![
            problem(0),
            ReportedProblem {
                kind: "Node".to_owned(),
                object: ObjectName::new("", "node1"),
                ..problem(0)
            },
        ],
        more_problems: 0,
    }
}

/// What is read of what is written.
fn through_the_server(report: &NodeReport) -> NodeReport {
    let written = serde_json::to_value(NetworkQoSNodeReport::of(report)).unwrap();
    assert_eq!(refusals(&written), [""; 0]);
    convert::node_report(&serde_json::from_value(written).unwrap()).unwrap()
}

/// What an API server refuses of an object.
fn refusals(object: &Value) -> Vec<String> {
    let definitions = definitions();
    let mut crds = definitions.iter().map(|it| it.crd().unwrap());
    let plural = "networkqosnodereports";
    let crd = crds.find(|crd| crd.spec.names.plural == plural).unwrap();
    let schema = crd.spec.versions[0].schema.as_ref().unwrap();
    let schema = schema.open_api_v3_schema.as_ref().unwrap();
    let schema = ResourceSchema::new(serde_json::to_value(schema).unwrap());
    let told = [schema.check_form(object), schema.check_rules(object, None)].concat();
    told.iter().map(ToString::to_string).collect()
}

#[test]
fn a_report_is_read_as_it_is_written() {
    assert_eq!(through_the_server(&report()), report());
}

#[test]
fn what_is_too_much_for_a_report_is_counted() {
    let mut much = report();
    much.problems = (0..250).map(problem).collect();
    much.problems[0].message = "ä".repeat(2_000);
    let read = through_the_server(&much);
    assert_eq!((read.problems.len(), read.more_problems), (100, 150));
    assert_eq!(read.problems[0].message, "ä".repeat(1_024));
    assert_eq!(read.problems[1..], much.problems[1..100]);
}

/// As an agent of an older version writes it, and one of a newer.
#[test]
fn what_a_report_does_not_say_or_nobody_knows_is_no_matter() {
    let read = |object: serde_json::Value| {
        convert::node_report(&serde_json::from_value(object).unwrap()).unwrap()
    };
    let older = serde_json::json!({
        "metadata": {"name": "node1"}, "agentVersion": "0.1.0", "problems": [],
        "policies": [{"namespace": "games", "name": "free", "generation": 3}]
    });
    let policies = read(older.clone()).policies;
    assert_eq!(
        policies[&ObjectName::new("games", "free")],
        version(None, 3)
    );
    let mut newer = older.clone();
    newer["heartbeat"] = "now".into();
    newer["policies"][0]["enforcedSince"] = "now".into();
    assert_eq!(read(newer), read(older));
}
