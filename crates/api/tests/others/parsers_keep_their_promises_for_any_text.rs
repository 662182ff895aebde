//! The promises of parsers, on texts that are random, or nearly right.

use netqos_promises as promises;
use proptest::prelude::*;

/// What a quantity, or something like one, looks like.
const QUANTITY: &str =
    "[+-]?[0-9]{0,25}(\\.[0-9]{0,12})?(n|u|m||k|K|M|G|T|P|E|[KMGTPE]i|[eE][+-]?[0-9]{0,11})";

/// What a duration, or something like one, looks like.
const DURATION: &str = "[+-]?([0-9]{0,20}(\\.[0-9]{0,20})?(ns|us|µs|ms|s|m|h|d|)){0,3}";

/// Six lines for six annotations, each of which is there half of the time.
fn annotation_values() -> impl Strategy<Value = String> {
    let bandwidth = || {
        prop_oneof![
            Just(String::new()),
            "[1-9][0-9]{0,3}(k|M|G|Ki|e4)",
            QUANTITY
        ]
    };
    let burst = || prop_oneof![Just(String::new()), "[1-9][0-9]{0,3}(k|M|G|)", QUANTITY];
    let latency = || prop_oneof![Just(String::new()), "[1-9][0-9]{0,3}(ms|us|s)", DURATION];
    (
        bandwidth(),
        burst(),
        latency(),
        bandwidth(),
        burst(),
        latency(),
    )
        .prop_map(|(a, b, c, d, e, f)| [a, b, c, d, e, f].join("\n"))
}

/// A configuration with the right keys, in any case, and values that are mostly right.
fn configuration() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        Just("0".to_owned()),
        Just("4294967295".to_owned()),
        any::<u64>().prop_map(|number| number.to_string()),
        (8..1_000_000_000_u64).prop_map(|number| number.to_string()),
    ];
    let value = prop_oneof![
        8 => number,
        1 => QUANTITY.prop_map(|text| format!("{text:?}")),
        1 => Just("null".to_owned()),
        1 => any::<f64>().prop_filter_map("JSON has no such number", |number| {
            number.is_finite().then(|| number.to_string())
        }),
    ];
    let key = "(in|e)gress(Rate|Burst)|[iI]ngressRate|INGRESSBURST";
    let entry = prop::collection::vec((key, value), 0..6).prop_map(|fields| {
        let fields: Vec<_> = fields
            .into_iter()
            .map(|(key, value)| format!("{key:?}: {value}"))
            .collect();
        fields.join(", ")
    });
    let capability = "bandwidth|bandWidth|trafficShaping";
    let rest = prop_oneof![
        Just(""),
        Just(r#", "unit": "Kbps""#),
        Just(r#", "egress": "ifb""#),
        Just(r#", "shapedSubnets": ["10.0.0.0/8"]"#),
    ];
    (any::<bool>(), entry, capability, rest).prop_map(|(in_list, entry, capability, rest)| {
        if in_list && !entry.is_empty() {
            format!("{{{entry}{rest}}}")
        } else {
            format!(r#"{{"runtimeConfig": {{"{capability}": {{{entry}}}}}{rest}}}"#)
        }
    })
}

/// A pod of the proposal's file, whose rules are mostly right.
fn pods_file() -> impl Strategy<Value = String> {
    let text = |pattern: &'static str| pattern.prop_map(|text| format!("{text:?}"));
    let kind = text("ip|port|dscp|mac");
    let expr = prop_oneof![
        text("=?[0-9]{1,5}(-[0-9]{1,5})?"),
        text("=[0-9]{1,3}(\\.[0-9]{1,3}){3}(/[0-9]{1,2})?"),
        text("=(fd[0-9a-f]{2}:)?:[0-9a-f]{0,4}(/[0-9]{1,3})?"),
        Just("null".to_owned()),
    ];
    let one =
        (kind, expr).prop_map(|(kind, expr)| format!(r#"{{"type": {kind}, "expr": {expr}}}"#));
    let matches = prop::collection::vec(one, 0..3);
    let action = text("qos-class|dscp|bandwidth_m(in|ax)");
    let value = prop_oneof![text("l[0-3]"), text("[0-9]{0,22}"), Just("17".to_owned())];
    let one = (action, value)
        .prop_map(|(action, value)| format!(r#"{{"action": {action}, "value": {value}}}"#));
    let actions = prop::collection::vec(one, 0..3);
    let rule = (matches, actions).prop_map(|(matches, actions)| {
        let (matches, actions) = (matches.join(", "), actions.join(", "));
        format!(r#"{{"matchs": [{matches}], "actions": [{actions}]}}"#)
    });
    let rules = prop::collection::vec(rule, 0..3);
    let cgroup = text("(/sys/fs/cgroup(/net_cls|/unified)?)?(/?[a-z.]{1,3}){0,4}/?");
    (cgroup, 0_u8..4, "[a-z]?/[a-z/]{0,3}", rules).prop_map(|(cgroup, priority, pod, rules)| {
        let rules = rules.join(", ");
        format!(
            r#"[{{"cgroup": {cgroup}, "priority": {priority}, "pod": "{pod}", "podUID": "1",
                "qos-config": {{"egress": [{rules}]}}}}]"#
        )
    })
}

/// Entries of both forms, and of a network status, that are mostly right.
fn networks() -> impl Strategy<Value = String> {
    let name = "[a-z0-9.-]{1,3}";
    let entry = (
        proptest::option::of(name),
        name,
        proptest::option::of("[a-z%/]{1,2}"),
    );
    let short = entry.prop_map(|(namespace, name, interface)| {
        let namespace = namespace.map_or_else(String::new, |it| it + "/");
        namespace + &name + &interface.map_or_else(String::new, |it| format!("@{it}"))
    });
    let short = prop::collection::vec(short, 0..4).prop_map(|entries| entries.join(","));
    let key = "name|namespace|interface|ips|mac|bandwidth|default-route|deviceID|dns|mtu|default|x";
    let value = prop_oneof![
        4 => "[a-z]{1,3}".prop_map(|text| format!("{text:?}")),
        1 => Just(r#"["10.1.0.5/24"]"#.to_owned()),
        1 => Just("true".to_owned()),
        1 => Just("1400".to_owned()),
        1 => Just(r#"{"ingressRate": 8}"#.to_owned()),
        1 => Just("null".to_owned()),
    ];
    let field = (key, value).prop_map(|(key, value)| format!("{key:?}: {value}"));
    let object = prop::collection::vec(field, 0..4)
        .prop_map(|fields| format!(r#"{{"name": "a", {}}}"#, fields.join(", ")));
    let object = object.prop_map(|text| text.replace(", }", "}"));
    let list = prop::collection::vec(object, 0..4);
    prop_oneof![
        short,
        list.prop_map(|objects| format!("[{}]", objects.join(", ")))
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn quantities(text in prop_oneof![QUANTITY, ".{0,40}"]) {
        promises::quantity(&text);
    }

    #[test]
    fn durations(text in prop_oneof![DURATION, ".{0,40}"]) {
        promises::duration(&text);
    }

    #[test]
    fn annotations(text in prop_oneof![3 => annotation_values(), 1 => "(.|\n){0,100}"]) {
        promises::annotations(&text);
    }

    #[test]
    fn bandwidth_configurations(text in prop_oneof![7 => configuration(), 1 => ".{0,100}"]) {
        promises::bandwidth_config(&text);
    }

    #[test]
    fn networks_of_a_pod(text in prop_oneof![7 => networks(), 1 => ".{0,100}"]) {
        promises::networks(&text);
    }

    #[test]
    fn the_proposals_two_files(text in prop_oneof![7 => pods_file(), 1 => ".{0,100}"]) {
        promises::net_files(&text);
    }
}
