//! The bodies of the fuzz targets, on texts that are random, or nearly right.

mod bodies;

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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn quantities(text in prop_oneof![QUANTITY, ".{0,40}"]) {
        bodies::quantity(&text);
    }

    #[test]
    fn durations(text in prop_oneof![DURATION, ".{0,40}"]) {
        bodies::duration(&text);
    }

    #[test]
    fn annotations(text in prop_oneof![3 => annotation_values(), 1 => "(.|\n){0,100}"]) {
        bodies::annotations(&text);
    }

    #[test]
    fn bandwidth_configurations(text in prop_oneof![7 => configuration(), 1 => ".{0,100}"]) {
        bodies::bandwidth_config(&text);
    }
}
