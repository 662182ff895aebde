//! Random manifests, often right and often just beside it.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::policies::{PROPOSAL, SHIPPED};

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
        "10.0",
        "1e1",
        "-0.0",
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
        netqos_promises::manifests(&text);
    }

    #[test]
    fn reading_never_panics(text in ".{0,200}", at in 0_usize..900, with in "[a-z:{}\\[\\]\n ,0-9-]{0,6}") {
        netqos_promises::manifests(&text);
        for whole in [PROPOSAL, SHIPPED] {
            let mut nearly = whole.to_owned();
            nearly.insert_str(at.min(nearly.len()), &with);
            netqos_promises::manifests(&nearly);
        }
    }
}
