//! What users write, and what they get.

use std::time::Duration;

use netqos_core::ByteCount;

use super::*;

fn annotations(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

fn limit(bits_per_second: u64) -> Limit {
    Limit::of(BitRate::from_bits_per_second(bits_per_second))
}

#[test]
fn bandwidths_become_rates() {
    for (value, rate) in [
        ("1k", 1_000),
        ("999.5", 1_000),
        ("10M", 10_000_000),
        ("1.5G", 1_500_000_000),
        ("1Gi", 1_073_741_824),
        ("1e6", 1_000_000),
        ("1P", 1_000_000_000_000_000),
    ] {
        for (key, direction) in [
            (INGRESS_BANDWIDTH, Direction::Ingress),
            (EGRESS_BANDWIDTH, Direction::Egress),
        ] {
            let limits = pod_limits(&annotations(&[(key, value), ("other", "10")]));
            let expected = match direction {
                Direction::Ingress => Limits {
                    ingress: Some(limit(rate)),
                    egress: None,
                },
                Direction::Egress => Limits {
                    ingress: None,
                    egress: Some(limit(rate)),
                },
            };
            assert_eq!(limits, Ok(expected), "{key}: {value}");
        }
    }
    assert_eq!(pod_limits(&BTreeMap::new()), Ok(Limits::default()));
}

#[test]
fn bursts_and_latencies_refine_their_own_direction() {
    let limits = pod_limits(&annotations(&[
        (INGRESS_BANDWIDTH, "10M"),
        (EGRESS_BANDWIDTH, "20M"),
        (INGRESS_BURST, "1M"),
        (EGRESS_LATENCY, "25ms"),
    ]));
    let expected = Limits {
        ingress: Some(Limit {
            burst: Some(ByteCount::from_bytes(125_000)),
            ..limit(10_000_000)
        }),
        egress: Some(Limit {
            latency: Some(Duration::from_millis(25)),
            ..limit(20_000_000)
        }),
    };
    assert_eq!(limits, Ok(expected));
}

#[test]
fn ends_of_the_ranges() {
    for (key, value, accepted) in [
        (INGRESS_BURST, "8", true),
        (INGRESS_BURST, "7.1", true),
        (INGRESS_BURST, "7", false),
        (INGRESS_BURST, "1P", true),
        (INGRESS_BURST, "1000000000000001", false),
        (INGRESS_LATENCY, "1ms", true),
        (INGRESS_LATENCY, "999.999us", false),
        (INGRESS_LATENCY, "10s", true),
        (INGRESS_LATENCY, "10.000000001s", false),
    ] {
        let limits = pod_limits(&annotations(&[(INGRESS_BANDWIDTH, "10M"), (key, value)]));
        assert_eq!(limits.is_ok(), accepted, "{key}: {value}: {limits:?}");
    }
}

#[test]
fn messages_name_annotation_and_value_and_keep_the_inner_text() {
    for (pairs, message) in [
        (
            &[(INGRESS_BANDWIDTH, "10Q")][..],
            r#"annotation kubernetes.io/ingress-bandwidth: "10Q": quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"#,
        ),
        (
            &[(EGRESS_BANDWIDTH, "10K")],
            r#"annotation kubernetes.io/egress-bandwidth: "10K": unable to parse quantity's suffix"#,
        ),
        (
            &[(INGRESS_BANDWIDTH, "999")],
            r#"annotation kubernetes.io/ingress-bandwidth: "999": resource is unreasonably small (< 1kbit)"#,
        ),
        (
            &[(INGRESS_BANDWIDTH, "-10M")],
            r#"annotation kubernetes.io/ingress-bandwidth: "-10M": resource is unreasonably small (< 1kbit)"#,
        ),
        (
            &[(EGRESS_BANDWIDTH, "1000000000000000.1")],
            r#"annotation kubernetes.io/egress-bandwidth: "1000000000000000.1": resource is unreasonably large (> 1Pbit)"#,
        ),
        (
            &[(EGRESS_BANDWIDTH, "100E")],
            r#"annotation kubernetes.io/egress-bandwidth: "100E": resource is unreasonably large (> 1Pbit)"#,
        ),
        // The bandwidths come first, ingress before egress.
        (
            &[
                (EGRESS_BANDWIDTH, "1"),
                (INGRESS_BANDWIDTH, ""),
                (INGRESS_BURST, "x"),
            ],
            r#"annotation kubernetes.io/ingress-bandwidth: "": quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"#,
        ),
        (
            &[(INGRESS_BANDWIDTH, "10M"), (INGRESS_BURST, "0")],
            r#"annotation netqos.io/ingress-burst: "0": a burst is a number of bits from 8 (one byte) to 1P"#,
        ),
        (
            &[(EGRESS_BANDWIDTH, "10M"), (EGRESS_BURST, "-1M")],
            r#"annotation netqos.io/egress-burst: "-1M": a burst is a number of bits from 8 (one byte) to 1P"#,
        ),
        (
            &[(EGRESS_BANDWIDTH, "10M"), (EGRESS_LATENCY, "25")],
            r#"annotation netqos.io/egress-latency: "25": time: missing unit in duration "25"; write it like "25ms" or "1.5s""#,
        ),
        (
            &[(EGRESS_BANDWIDTH, "10M"), (EGRESS_LATENCY, "1m")],
            r#"annotation netqos.io/egress-latency: "1m": a latency is from 1ms to 10s"#,
        ),
        (
            &[(EGRESS_BANDWIDTH, "10M"), (INGRESS_LATENCY, "25ms")],
            r#"annotation netqos.io/ingress-latency: "25ms" has no effect without a bandwidth in the same direction: add the annotation kubernetes.io/ingress-bandwidth, or remove this one"#,
        ),
        (
            &[(INGRESS_BANDWIDTH, "10M"), (EGRESS_BURST, "1M")],
            r#"annotation netqos.io/egress-burst: "1M" has no effect without a bandwidth in the same direction: add the annotation kubernetes.io/egress-bandwidth, or remove this one"#,
        ),
    ] {
        let error = pod_limits(&annotations(pairs)).map_err(|error| error.to_string());
        assert_eq!(error, Err(message.to_owned()), "{pairs:?}");
    }
}

#[test]
fn one_bad_extra_does_not_spoil_the_others() {
    let (extras, errors) = ShapingExtras::read(&annotations(&[
        (INGRESS_BURST, "lots"),
        (INGRESS_LATENCY, "25ms"),
        (EGRESS_BURST, "80"),
        (EGRESS_LATENCY, "soon"),
    ]));
    let named: Vec<_> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(named.len(), 2, "{named:?}");
    assert!(named[0].contains(INGRESS_BURST), "{named:?}");
    assert!(named[1].contains(EGRESS_LATENCY), "{named:?}");

    let ingress_only = Limits {
        ingress: Some(limit(1_000)),
        egress: None,
    };
    let applied = extras.apply_to(ingress_only);
    assert_eq!(
        applied.ingress,
        Some(Limit {
            latency: Some(Duration::from_millis(25)),
            ..limit(1_000)
        })
    );
    assert_eq!(applied.egress, None);
    let unused = extras.without_limit(ingress_only);
    assert_eq!(unused.len(), 1, "{unused:?}");
    assert!(unused[0].to_string().contains(EGRESS_BURST), "{unused:?}");
}

#[test]
fn every_mistake_is_told_and_none_where_the_limits_can_be_read() {
    let told = |pairs: &[(&str, &str)]| {
        let annotations = annotations(pairs);
        let (_, errors) = parse_pod_limits(&annotations);
        assert_eq!(errors.first().cloned(), pod_limits(&annotations).err());
        errors.len()
    };
    assert_eq!(told(&[]), 0);
    assert_eq!(told(&[(EGRESS_BANDWIDTH, "10M"), (EGRESS_BURST, "1M")]), 0);
    assert_eq!(
        told(&[(EGRESS_BANDWIDTH, "ten"), (INGRESS_BANDWIDTH, "1")]),
        2
    );
    assert_eq!(told(&[(EGRESS_BANDWIDTH, "ten"), (EGRESS_BURST, "1M")]), 1);
    assert_eq!(told(&[(EGRESS_BURST, "1M"), (INGRESS_LATENCY, "1h")]), 2);
    assert_eq!(
        told(&[
            (INGRESS_BANDWIDTH, "1"),
            (INGRESS_BURST, "x"),
            (EGRESS_LATENCY, "5ms")
        ]),
        3
    );
}

#[test]
fn mistake_in_one_direction_leaves_the_other_limited() {
    let parsed = |pairs: &[(&str, &str)]| parse_pod_limits(&annotations(pairs)).0;
    for (key, value, ingress) in [
        (INGRESS_BANDWIDTH, "10Mbit", None),
        (INGRESS_BURST, "lots", Some(limit(5_000_000))),
        (INGRESS_LATENCY, "soon", Some(limit(5_000_000))),
    ] {
        let mut pairs = vec![(INGRESS_BANDWIDTH, "5M"), (EGRESS_BANDWIDTH, "20M")];
        pairs.push((key, value));
        let limits = Limits {
            ingress,
            egress: Some(limit(20_000_000)),
        };
        assert_eq!(parsed(&pairs), limits, "{key}: {value}");
    }
    let burst_alone = [(INGRESS_BURST, "1M"), (EGRESS_BANDWIDTH, "20M")];
    assert_eq!(parsed(&burst_alone).egress, Some(limit(20_000_000)));
}

#[test]
fn annotation_error_names_its_direction() {
    for direction in [Direction::Ingress, Direction::Egress] {
        let keys = [
            bandwidth_annotation(direction).to_owned(),
            format!("netqos.io/{direction}-burst"),
            format!("netqos.io/{direction}-latency"),
        ];
        for key in keys {
            let (_, errors) = parse_pod_limits(&annotations(&[(&key, "x")]));
            let named: Vec<_> = errors.iter().map(|it| it.direction()).collect();
            assert_eq!(named, [direction], "{key}");
            assert_eq!(errors[0].annotation(), key);
        }
    }
}
