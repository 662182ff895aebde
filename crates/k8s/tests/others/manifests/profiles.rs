//! Bandwidth profiles: what is read, and what is refused with its field, by the schema or beyond it.

use std::time::Duration;

use netqos_core::{BitRate, ByteCount, Limit, Profile};
use netqos_k8s::{Object, check_structure, object_from_value, validate};
use serde_json::{Value, json};

fn object(spec: Value) -> Value {
    json!({
        "apiVersion": "netqos.io/v1alpha1",
        "kind": "BandwidthProfile",
        "metadata": {"namespace": "games", "name": "free"},
        "spec": spec,
    })
}

fn read(spec: Value) -> Result<Profile, Vec<String>> {
    match object_from_value(&object(spec)) {
        Ok(Object::Profile(profile)) => Ok(profile),
        Ok(other) => panic!("{other:?}"),
        Err(errors) => Err(errors.iter().map(ToString::to_string).collect()),
    }
}

#[test]
fn quantities_are_in_bits_and_may_be_numbers() {
    let profile = read(json!({
        "podSelector": {"matchLabels": {"tier": "free"}},
        "priority": 7,
        "ingress": {"rate": "10M", "burst": "1M", "latency": "40ms"},
        "egress": {"rate": 5_000_000_000_i64, "burst": null},
    }));
    let profile = profile.unwrap();
    assert_eq!(profile.name.to_string(), "games/free");
    assert_eq!(profile.pods.to_string(), "tier=free");
    assert_eq!(profile.priority.get(), 7);
    let ingress = Limit {
        rate: BitRate::from_bits_per_second(10_000_000),
        burst: Some(ByteCount::from_bytes(125_000)),
        latency: Some(Duration::from_millis(40)),
    };
    assert_eq!(profile.limits.ingress, Some(ingress));
    let egress = Limit::of(BitRate::from_bits_per_second(5_000_000_000));
    assert_eq!(profile.limits.egress, Some(egress));
    let least = read(json!({"egress": {"rate": "1k", "burst": 8, "latency": "1ms"}})).unwrap();
    assert_eq!((least.priority.get(), least.limits.ingress), (0, None));
    let most = json!({"egress": {"rate": "1P", "burst": "1P", "latency": "10s"}});
    assert_eq!(validate(&object(most.clone())), []);
    read(most).unwrap();
}

/// Whether the schema refuses it, too, is said last: ranges of quantities are beyond it.
#[test]
fn what_is_wrong_is_told_with_its_field() {
    let rate = |rate: Value| json!({"ingress": {"rate": rate}});
    let more = |name: &str, value: Value| json!({"egress": {"rate": "1M", name: value}});
    for (spec, says, by_schema) in [
        (
            rate(json!("999")),
            "spec.ingress.rate: \"999\": it is not between 1000",
            false,
        ),
        (
            rate(json!("1001T")),
            "spec.ingress.rate: \"1001T\": it is not between",
            false,
        ),
        (
            rate(json!(0)),
            "spec.ingress.rate: \"0\": it is not between",
            false,
        ),
        (
            rate(json!("-1M")),
            "spec.ingress.rate: \"-1M\" does not match",
            true,
        ),
        (
            rate(json!("10 Mbit")),
            "spec.ingress.rate: \"10 Mbit\" does not match",
            true,
        ),
        (rate(json!(1.5)), "spec.ingress.rate:", true),
        (json!({"ingress": {}}), "spec.ingress.rate: missing", true),
        (
            more("burst", json!("7")),
            "spec.egress.burst: \"7\": it is not between 8",
            false,
        ),
        (
            more("latency", json!("999us")),
            "spec.egress.latency: \"999us\": it is not from",
            false,
        ),
        (
            more("latency", json!("11s")),
            "spec.egress.latency: \"11s\": it is not from",
            false,
        ),
        (
            more("latency", json!("25")),
            "spec.egress.latency: \"25\" does not match",
            true,
        ),
        (
            more("latency", json!(25)),
            "spec.egress.latency: a string is expected",
            true,
        ),
        (
            more("priority", json!(1)),
            "spec.egress.priority: unknown field",
            true,
        ),
        (
            json!({"priority": 101, "egress": {"rate": "1M"}}),
            "spec.priority:",
            true,
        ),
    ] {
        let told = read(spec.clone()).unwrap_err();
        assert!(told[0].starts_with(says), "{told:?} is not {says}");
        let object = object(spec);
        assert_eq!(!check_structure(&object).is_empty(), by_schema, "{says}");
        let told: Vec<String> = validate(&object).iter().map(ToString::to_string).collect();
        assert!(told[0].starts_with(says), "{told:?} is not {says}");
    }
    let nothing = "spec: a profile needs ingress, egress, or both";
    assert_eq!(read(json!({})).unwrap_err(), [nothing]);
    let told = validate(&object(json!({})));
    assert_eq!(
        told.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [nothing]
    );
}
