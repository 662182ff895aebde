//! Quantities, durations, annotations and the files of other projects.

use std::collections::BTreeMap;
use std::time::Duration;

use netqos_api::annotations::{
    EGRESS_BANDWIDTH, EGRESS_BURST, EGRESS_LATENCY, INGRESS_BANDWIDTH, INGRESS_BURST,
    INGRESS_LATENCY,
};
use netqos_api::capability::{bandwidth_argument, traffic_shaping_argument};
use netqos_api::duration::{format_duration, parse_duration};
use netqos_api::koordinator::net_files::{node_json, parse_node, parse_pods, pods_json};
use netqos_api::npwg::{
    InterfaceNames, MAX_SELECTIONS, interface_names, parse_selections, parse_status, write_status,
};
use netqos_api::{BandwidthConfig, Environment, Quantity, RateUnit, pod_limits};
use netqos_core::{Direction, Limit, Limits};
use serde_json::{Map, Value, json};

/// The burst from which on runtimes and plugins do not take it: see `capability`.
const MAX_BURST_BYTES: u64 = u32::MAX as u64 - 1;

/// A quantity reads back what it prints, and its numbers agree with each other.
pub fn quantity(text: &str) {
    let Ok(quantity) = text.parse::<Quantity>() else {
        return;
    };
    let printed = quantity.to_string();
    assert_eq!(
        printed.parse(),
        Ok(quantity.clone()),
        "{text:?} -> {printed}"
    );
    let (value, milli) = (quantity.value(), quantity.milli_value());
    if milli != i64::MAX && milli != i64::MIN {
        let from_milli = milli / 1000 + (milli % 1000).signum();
        assert_eq!(value, from_milli, "{text:?}");
    }
}

/// The proposal's two files read back as they are written.
pub fn net_files(text: &str) {
    if let Ok(shares) = parse_node(text) {
        assert_eq!(parse_node(&node_json(&shares)), Ok(shares), "{text:?}");
    }
    if let Ok(pods) = parse_pods(text) {
        assert_eq!(parse_pods(&pods_json(&pods)), Ok(pods), "{text:?}");
    }
}

/// A network selection is bounded, what it names is safe in a path, and interfaces have names of their own. A network
/// status reads back as it is written.
pub fn networks(text: &str) {
    if let Ok(status) = parse_status(text) {
        let written = write_status(&status);
        assert_eq!(parse_status(&written).ok(), Some(status), "{written}");
    }
    let Ok(selections) = parse_selections(text, "default") else {
        return;
    };
    assert!(selections.len() <= MAX_SELECTIONS, "{text:?}");
    let is_safe = |name: &str| !name.is_empty() && !name.contains(['/', '.', '\0']);
    for one in &selections {
        assert!(
            is_safe(&one.nad.namespace) && is_safe(&one.nad.name),
            "{one:?}"
        );
    }
    let Ok(names) = interface_names(&selections, InterfaceNames::Net, "eth0") else {
        return;
    };
    let unlike: std::collections::BTreeSet<&String> = names.iter().collect();
    assert_eq!(unlike.len(), selections.len(), "{names:?}");
    assert!(
        names
            .iter()
            .all(|name| netqos_core::is_interface_name(name)),
        "{names:?}"
    );
}

/// A duration reads back what it prints.
pub fn duration(text: &str) {
    let Ok(duration) = parse_duration(text) else {
        return;
    };
    let printed = format_duration(duration);
    assert_eq!(
        parse_duration(&printed),
        Ok(duration),
        "{text:?} -> {printed}"
    );
}

/// Limits from annotations are in range, and written as annotations again are the same limits.
/// The text is the six values, one a line; an empty line is an annotation that is not there.
pub fn annotations(text: &str) {
    let keys = [
        INGRESS_BANDWIDTH,
        INGRESS_BURST,
        INGRESS_LATENCY,
        EGRESS_BANDWIDTH,
        EGRESS_BURST,
        EGRESS_LATENCY,
    ];
    let annotations = keys
        .into_iter()
        .zip(text.split('\n'))
        .filter(|(_, value)| !value.is_empty())
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    let limits = match pod_limits(&annotations) {
        Ok(limits) => limits,
        Err(error) => {
            let message = error.to_string();
            assert!(
                annotations.keys().any(|key| message.contains(key)),
                "{message} names no annotation of {annotations:?}"
            );
            return;
        }
    };

    let mut written = BTreeMap::new();
    for (direction, [bandwidth, burst, latency]) in [
        (
            Direction::Ingress,
            [INGRESS_BANDWIDTH, INGRESS_BURST, INGRESS_LATENCY],
        ),
        (
            Direction::Egress,
            [EGRESS_BANDWIDTH, EGRESS_BURST, EGRESS_LATENCY],
        ),
    ] {
        let Some(limit) = limits.of(direction) else {
            continue;
        };
        let rate = limit.rate.bits_per_second();
        assert!((1_000..=1_000_000_000_000_000).contains(&rate), "{limit:?}");
        written.insert(bandwidth.to_owned(), rate.to_string());
        if let Some(bytes) = limit.burst {
            assert!(bytes.bytes() > 0, "{limit:?}");
            written.insert(burst.to_owned(), (bytes.bytes() * 8).to_string());
        }
        if let Some(wait) = limit.latency {
            let range = Duration::from_millis(1)..=Duration::from_secs(10);
            assert!(range.contains(&wait), "{limit:?}");
            written.insert(latency.to_owned(), format_duration(wait));
        }
    }
    assert_eq!(pod_limits(&written), Ok(limits), "{written:?}");
}

/// Limits from any configuration can be held by the kernel, and sent through a runtime by either
/// capability they arrive as they were.
pub fn bandwidth_config(text: &str) {
    let Ok(config) = serde_json::from_str::<Map<String, Value>>(text) else {
        return;
    };
    let Ok(config) = BandwidthConfig::parse(&config, Environment::default()) else {
        return;
    };
    for limit in [config.limits.ingress, config.limits.egress]
        .into_iter()
        .flatten()
    {
        assert!(limit.rate.bytes_per_second() > 0, "{limit:?}");
        assert!(
            limit.burst.is_none_or(|burst| burst.bytes() > 0),
            "{limit:?}"
        );
    }

    let expected = sendable(config.limits);
    for (capability, argument) in [
        ("bandwidth", bandwidth_argument(&expected)),
        (
            "trafficShaping",
            traffic_shaping_argument(&expected, RateUnit::BitsPerSecond),
        ),
    ] {
        let Value::Object(sent) = json!({"runtimeConfig": {capability: argument}}) else {
            unreachable!("an object was written");
        };
        let received = BandwidthConfig::parse(&sent, Environment::default());
        // `trafficShaping` counts in quantities, and those end at 2^63 − 1.
        if capability == "bandwidth" || highest_rate(&expected) < i64::MAX.unsigned_abs() {
            assert_eq!(
                received.map(|config| config.limits),
                Ok(expected),
                "{sent:?}"
            );
        }
    }
}

/// The limits without what no capability carries.
fn sendable(limits: Limits) -> Limits {
    let strip = |limit: Limit| Limit {
        burst: limit.burst.filter(|burst| burst.bytes() <= MAX_BURST_BYTES),
        latency: None,
        ..limit
    };
    Limits {
        ingress: limits.ingress.map(strip),
        egress: limits.egress.map(strip),
    }
}

fn highest_rate(limits: &Limits) -> u64 {
    [limits.ingress, limits.egress]
        .into_iter()
        .flatten()
        .map(|limit| limit.rate.bits_per_second())
        .max()
        .unwrap_or_default()
}
