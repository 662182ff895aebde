//! What arrives on the plugin's standard input, and what it is taken for.

use std::time::Duration;

use netqos_core::{BitRate, ByteCount, Limit};

use super::*;
use crate::capability::{bandwidth_argument, traffic_shaping_argument};

fn parse(json: &str) -> Result<BandwidthConfig, BandwidthConfigError> {
    parse_in(json, Environment::default())
}

fn parse_in(
    json: &str,
    environment: Environment<'_>,
) -> Result<BandwidthConfig, BandwidthConfigError> {
    let config: Map<String, Value> =
        serde_json::from_str(json).unwrap_or_else(|error| panic!("{json}: {error}"));
    BandwidthConfig::parse(&config, environment)
}

/// A rate and a burst in bytes.
fn limit(rate: u64, burst: Option<u64>) -> Option<Limit> {
    Some(Limit {
        burst: burst.map(ByteCount::from_bytes),
        ..Limit::of(BitRate::from_bits_per_second(rate))
    })
}

#[test]
fn where_limits_come_from() {
    for (json, ingress, egress) in [
        ("{}", None, None),
        (r#"{"runtimeConfig": {}}"#, None, None),
        (r#"{"runtimeConfig": null}"#, None, None),
        (r#"{"runtimeConfig": {"bandwidth": null}}"#, None, None),
        (r#"{"runtimeConfig": {"bandwidth": {}}}"#, None, None),
        // As the well-known plugin's suite has it.
        (
            r#"{"ingressRate": 8, "ingressBurst": 8, "egressRate": 16, "egressBurst": 12}"#,
            limit(8, Some(1)),
            limit(16, Some(1)),
        ),
        (
            r#"{"runtimeConfig": {"bandWidth": {"ingressRate": 8, "ingressBurst": 8, "egressRate": 16, "egressBurst": 9}}}"#,
            limit(8, Some(1)),
            limit(16, Some(1)),
        ),
        // As containerd sends it.
        (
            r#"{"runtimeConfig": {"bandwidth": {"IngressRate": 8000000, "IngressBurst": 4294967295, "EgressRate": 20000000, "EgressBurst": 4294967295}}}"#,
            limit(8_000_000, None),
            limit(20_000_000, None),
        ),
        (
            r#"{"RUNTIMECONFIG": {"BANDWIDTH": {"EGRESSRATE": 8000, "EGRESSBURST": 80}}}"#,
            None,
            limit(8_000, Some(10)),
        ),
        // Numbers that are zero ask for nothing.
        (
            r#"{"runtimeConfig": {"bandwidth": {"ingressRate": 0, "ingressBurst": 0, "egressRate": 8000, "egressBurst": 80}}}"#,
            None,
            limit(8_000, Some(10)),
        ),
        // A static key hides the runtime's argument, whatever its value and case.
        (
            r#"{"ingressRate": 0, "runtimeConfig": {"bandwidth": {"ingressRate": 8000, "ingressBurst": 80}}}"#,
            None,
            None,
        ),
        (
            r#"{"ingressRate": null, "runtimeConfig": {"bandwidth": {"ingressRate": 8000, "ingressBurst": 80}}}"#,
            None,
            None,
        ),
        (
            r#"{"EgressBurst": null, "runtimeConfig": {"bandwidth": {"ingressRate": 8000, "ingressBurst": 80}}}"#,
            None,
            None,
        ),
        (
            r#"{"ingressRate": 16000, "ingressBurst": 160, "runtimeConfig": {"bandwidth": "not even looked at"}}"#,
            limit(16_000, Some(20)),
            None,
        ),
        // The exact spelling wins.
        (
            r#"{"INGRESSRATE": 1, "ingressRate": 9000, "ingressrate": 2, "ingressBurst": 80}"#,
            limit(9_000, Some(10)),
            None,
        ),
        // `bandwidth` before `trafficShaping`.
        (
            r#"{"runtimeConfig": {"trafficShaping": {"ingressRate": "1M"}, "bandwidth": {"ingressRate": 8000, "ingressBurst": 80}}}"#,
            limit(8_000, Some(10)),
            None,
        ),
        (
            r#"{"runtimeConfig": {"trafficShaping": {"ingressRate": "1M"}, "bandwidth": null}}"#,
            limit(1_000_000, None),
            None,
        ),
    ] {
        let limits = parse(json).map(|config| config.limits);
        assert_eq!(limits, Ok(Limits { ingress, egress }), "{json}");
    }
}

#[test]
fn the_runtimes_huge_bursts_mean_choose() {
    for (burst, taken) in [
        (2_147_483_647_u64, None),
        (4_294_967_295, None),
        (34_359_738_359, None),
        (2_147_483_646, Some(268_435_455)),
        (34_359_738_358, Some(4_294_967_294)),
        (8, Some(1)),
        // Less than a byte is still not nothing.
        (1, Some(1)),
    ] {
        let json = format!(r#"{{"egressRate": 1000000, "egressBurst": {burst}}}"#);
        let egress = parse(&json).map(|config| config.limits.egress);
        assert_eq!(egress, Ok(limit(1_000_000, taken)), "{burst}");
    }
}

#[test]
fn traffic_shaping_is_read_as_the_kep_writes_it() {
    for (entry, argument, ingress, egress) in [
        (
            "",
            r#"{"ingressRate": "10000000", "egressRate": "20000000"}"#,
            limit(10_000_000, None),
            limit(20_000_000, None),
        ),
        (
            "",
            r#"{"ingressRate": 10000000}"#,
            limit(10_000_000, None),
            None,
        ),
        (
            "",
            r#"{"INGRESSRATE": "10M", "ingressburst": "80k"}"#,
            limit(10_000_000, Some(10_000)),
            None,
        ),
        (
            "",
            r#"{"ingressRate": "10M", "ingressBurst": "4294967295"}"#,
            limit(10_000_000, None),
            None,
        ),
        (
            "",
            r#"{"ingressRate": "10M", "ingressBurst": 0}"#,
            limit(10_000_000, None),
            None,
        ),
        (
            "",
            r#"{"ingressRate": "0", "egressRate": null}"#,
            None,
            None,
        ),
        ("", "{}", None, None),
        (
            r#""unit": "bps","#,
            r#"{"egressRate": "1e6"}"#,
            None,
            limit(1_000_000, None),
        ),
        (
            r#""unit": "Kbps","#,
            r#"{"egressRate": "10000"}"#,
            None,
            limit(10_000_000, None),
        ),
        (
            r#""UNIT": "kbps","#,
            r#"{"egressRate": 10000}"#,
            None,
            limit(10_000_000, None),
        ),
        (
            r#""unit": "Kbps","#,
            r#"{"egressRate": "1.5", "egressBurst": "8"}"#,
            None,
            limit(1_500, Some(1_000)),
        ),
        (
            r#""unit": "Kbps","#,
            r#"{"egressRate": "1", "egressBurst": 2147483647}"#,
            None,
            limit(1_000, None),
        ),
        // The unit is for trafficShaping alone: the keys of `bandwidth` are bits.
        (
            r#""unit": "Kbps", "egressRate": 8000, "egressBurst": 80,"#,
            "{}",
            None,
            limit(8_000, Some(10)),
        ),
    ] {
        let json = format!(r#"{{{entry} "runtimeConfig": {{"trafficShaping": {argument}}}}}"#);
        let limits = parse(&json).map(|config| config.limits);
        assert_eq!(limits, Ok(Limits { ingress, egress }), "{json}");
    }
}

#[test]
fn mistakes_have_the_well_known_plugins_words() {
    const NO_RATE: &str = "if burst is set, rate must also be set";
    const NO_BURST: &str = "if rate is set, burst must also be set";
    const TOO_LARGE: &str = "burst cannot be more than 4GB";
    for (json, message) in [
        (r#"{"ingressRate": 0, "ingressBurst": 123}"#, NO_RATE),
        (r#"{"ingressRate": 123}"#, NO_BURST),
        (
            r#"{"egressRate": 8, "egressBurst": 34359738360}"#,
            TOO_LARGE,
        ),
        (r#"{"egressRate": 0, "egressBurst": 34359738360}"#, NO_RATE),
        // A burst that means "choose" is still one.
        (r#"{"egressBurst": 4294967295}"#, NO_RATE),
        // Ingress first; and rules of the original before the kernel's.
        (r#"{"ingressRate": 8, "egressBurst": 8}"#, NO_BURST),
        (
            r#"{"ingressRate": 7, "ingressBurst": 8, "egressBurst": 8}"#,
            NO_RATE,
        ),
        (
            r#"{"runtimeConfig": {"bandwidth": {"ingressRate": 8}}}"#,
            NO_BURST,
        ),
        (
            r#"{"runtimeConfig": {"trafficShaping": {"ingressBurst": "1M"}}}"#,
            NO_RATE,
        ),
        (
            r#"{"runtimeConfig": {"trafficShaping": {"ingressRate": "1M", "ingressBurst": "35G"}}}"#,
            TOO_LARGE,
        ),
        (
            r#"{"runtimeConfig": {"bandwidth": {"ingressRate": 7, "ingressBurst": 8}}}"#,
            "runtimeConfig.bandwidth.ingressRate: 7 bit/s is less than the kernel's token bucket can hold: the smallest rate is 8 bit/s (0 is no limit)",
        ),
        (
            r#"{"egressRate": 1, "egressBurst": 8}"#,
            "egressRate: 1 bit/s is less than the kernel's token bucket can hold: the smallest rate is 8 bit/s (0 is no limit)",
        ),
        (
            r#"{"ingressRate": "10M"}"#,
            r#"failed to parse network configuration: json: cannot unmarshal string "10M" into field ingressRate of type uint64"#,
        ),
        (
            r#"{"runtimeConfig": {"bandwidth": {"IngressRate": -1}}}"#,
            "failed to parse network configuration: json: cannot unmarshal number -1 into field runtimeConfig.bandwidth.ingressRate of type uint64",
        ),
        (
            r#"{"egressRate": 1.5}"#,
            "failed to parse network configuration: json: cannot unmarshal number 1.5 into field egressRate of type uint64",
        ),
        (
            r#"{"egressBurst": 18446744073709551616}"#,
            "failed to parse network configuration: json: cannot unmarshal number 1.8446744073709552e+19 into field egressBurst of type uint64",
        ),
        (
            r#"{"runtimeConfig": "x"}"#,
            r#"failed to parse network configuration: json: cannot unmarshal string "x" into field runtimeConfig of type object"#,
        ),
        (
            r#"{"runtimeConfig": {"bandwidth": []}}"#,
            "failed to parse network configuration: json: cannot unmarshal array into field runtimeConfig.bandwidth of type object",
        ),
        (
            r#"{"runtimeConfig": {"trafficShaping": {"egressRate": true}}}"#,
            "failed to parse network configuration: json: cannot unmarshal bool true into field runtimeConfig.trafficShaping.egressRate of type quantity",
        ),
        (
            r#"{"runtimeConfig": {"trafficShaping": {"egressRate": "10K"}}}"#,
            r#"failed to parse network configuration: runtimeConfig.trafficShaping.egressRate: "10K": unable to parse quantity's suffix"#,
        ),
        (
            r#"{"runtimeConfig": {"trafficShaping": {"egressRate": "-1"}}}"#,
            r#"failed to parse network configuration: runtimeConfig.trafficShaping.egressRate: "-1" is out of range: it must be 0 (no limit) or more, and under 2^63 bits"#,
        ),
        (
            r#"{"unit": "Kbps", "runtimeConfig": {"trafficShaping": {"egressRate": "10E"}}}"#,
            r#"failed to parse network configuration: runtimeConfig.trafficShaping.egressRate: "10E" is out of range: it must be 0 (no limit) or more, and under 2^63 bits"#,
        ),
        (
            r#"{"unit": "MB"}"#,
            r#"unit: "MB" is unknown; known are "Kbps" and "bps""#,
        ),
        (
            r#"{"egress": "IFB"}"#,
            r#"egress: "IFB" is unknown; known are "pod" and "ifb""#,
        ),
        (
            r#"{"hook": "xdp"}"#,
            r#"hook: "xdp" is unknown; known are "auto", "clsact", "tcx" and "none""#,
        ),
        (
            r#"{"bpffs": "bpf"}"#,
            r#"bpffs: "bpf" is unknown; known are absolute paths"#,
        ),
    ] {
        let error = parse(json).map_err(|error| error.to_string());
        assert_eq!(error, Err(message.to_owned()), "{json}");
    }
}

#[test]
fn configuration_then_environment_then_default() {
    let environment = Environment {
        egress: Some("ifb"),
        hook: Some("tcx"),
    };
    for (json, environment, egress, hook) in [
        (
            "{}",
            Environment::default(),
            EgressWay::Pod,
            HookChoice::Auto,
        ),
        ("{}", environment, EgressWay::Ifb, HookChoice::Tcx),
        (
            r#"{"Egress": "pod", "hook": "none"}"#,
            environment,
            EgressWay::Pod,
            HookChoice::None,
        ),
        (
            r#"{"egress": "", "hook": "clsact"}"#,
            Environment {
                egress: Some(""),
                hook: Some("not looked at"),
            },
            EgressWay::Pod,
            HookChoice::Clsact,
        ),
        (
            r#"{"hook": "auto"}"#,
            environment,
            EgressWay::Ifb,
            HookChoice::Auto,
        ),
    ] {
        let choices = parse_in(json, environment).map(|config| (config.egress, config.hook));
        assert_eq!(choices, Ok((egress, hook)), "{json} {environment:?}");
    }

    let environment = Environment {
        egress: Some("host"),
        hook: None,
    };
    let error = parse_in("{}", environment).map_err(|error| error.to_string());
    assert_eq!(
        error,
        Err(r#"NETQOS_EGRESS: "host" is unknown; known are "pod" and "ifb""#.to_owned())
    );

    let bpffs = parse(r#"{"bpffs": "/run/bpf"}"#).map(|config| config.bpffs);
    assert_eq!(bpffs, Ok(Some("/run/bpf".to_owned())));
}

#[test]
fn pod_annotations_refine_the_runtimes_limits() {
    let json = r#"{"runtimeConfig": {
        "bandwidth": {"ingressRate": 8000000, "ingressBurst": 160000},
        "io.kubernetes.cri.pod-annotations": {
            "kubernetes.io/ingress-bandwidth": "9M",
            "netqos.io/ingress-burst": "80k",
            "netqos.io/ingress-latency": "25ms"
        }}}"#;
    let config = parse(json);
    assert_eq!(
        config.as_ref().map(|config| config.limits.ingress),
        Ok(limit(8_000_000, Some(10_000)).map(|limit| Limit {
            latency: Some(Duration::from_millis(25)),
            ..limit
        }))
    );
    assert_eq!(config.map(|config| config.warnings), Ok(Vec::new()));
}

#[test]
fn what_is_ignored_is_told_and_stops_nothing() {
    const BANDWIDTH: &str = r#""bandwidth": {"ingressRate": 8000, "ingressBurst": 80}"#;
    const STATIC: &str = r#""ingressRate": 8000, "ingressBurst": 80"#;
    for (json, warning) in [
        (
            format!(r#"{{"runtimeConfig": {{{BANDWIDTH}, "io.kubernetes.cri.pod-annotations": {{"netqos.io/ingress-burst": "lots"}}}}}}"#),
            r#"annotation netqos.io/ingress-burst: "lots": quantities must match"#,
        ),
        (
            format!(r#"{{"runtimeConfig": {{{BANDWIDTH}, "io.kubernetes.cri.pod-annotations": {{"netqos.io/egress-latency": "25ms"}}}}}}"#),
            r#"annotation netqos.io/egress-latency: "25ms" has no effect without a bandwidth"#,
        ),
        (
            format!(r#"{{"runtimeConfig": {{{BANDWIDTH}, "io.kubernetes.cri.pod-annotations": {{"x": 1}}}}}}"#),
            "cannot unmarshal number 1 into field runtimeConfig.io.kubernetes.cri.pod-annotations.x of type string",
        ),
        (
            format!(r#"{{"runtimeConfig": {{{BANDWIDTH}, "io.kubernetes.cri.pod-annotations": "x"}}}}"#),
            "into field runtimeConfig.io.kubernetes.cri.pod-annotations of type object",
        ),
        (
            format!(r#"{{{STATIC}, "runtimeConfig": {{"io.kubernetes.cri.pod-annotations": {{"netqos.io/ingress-burst": "1G"}}}}}}"#),
            "annotation netqos.io/ingress-burst is ignored: the plugin's configuration sets the limits",
        ),
        (
            format!(r#"{{{STATIC}, "unshapedSubnets": ["10.0.0.0/8"]}}"#),
            "unshapedSubnets is ignored: only versions 1.5",
        ),
        (
            r#"{"runtimeConfig": {"bandwidth": {"ingressRate": 8000, "ingressBurst": 80, "ShapedSubnets": ["10.0.0.0/8"]}}}"#.to_owned(),
            "runtimeConfig.bandwidth.shapedSubnets is ignored: only versions 1.5",
        ),
    ] {
        let config = parse(&json).unwrap_or_else(|error| panic!("{json}: {error}"));
        assert_eq!(config.limits.ingress, limit(8_000, Some(10)), "{json}");
        assert_eq!(config.warnings.len(), 1, "{json}: {:?}", config.warnings);
        assert!(config.warnings[0].contains(warning), "{:?}", config.warnings);
    }
    let quiet = format!(r#"{{{STATIC}, "unshapedSubnets": [], "shapedSubnets": null}}"#);
    assert_eq!(parse(&quiet).map(|config| config.warnings), Ok(Vec::new()));
}

#[test]
fn what_a_runtime_sends_is_what_the_plugin_gets() {
    let limits = Limits {
        ingress: limit(8_000_000, None),
        egress: limit(1_000_000_000_000_000, Some(4_294_967_294)),
    };
    let bandwidth = bandwidth_argument(&limits);
    assert_eq!(
        bandwidth.to_string(),
        r#"{"egressBurst":34359738352,"egressRate":1000000000000000,"ingressBurst":4294967295,"ingressRate":8000000}"#
    );
    let shaping = traffic_shaping_argument(&limits, RateUnit::BitsPerSecond);
    assert_eq!(
        shaping.to_string(),
        r#"{"egressBurst":"34359738352","egressRate":"1000000000000000","ingressRate":"8000000"}"#
    );
    for argument in [
        format!(r#"{{"runtimeConfig": {{"bandwidth": {bandwidth}}}}}"#),
        format!(r#"{{"runtimeConfig": {{"trafficShaping": {shaping}}}}}"#),
    ] {
        assert_eq!(parse(&argument).map(|config| config.limits), Ok(limits));
    }

    // Neither too large a burst nor too small a rate turns into something else on its way.
    let extremes = Limits {
        ingress: limit(999, Some(1 << 40)),
        egress: limit(1_999, Some(1)),
    };
    assert_eq!(
        bandwidth_argument(&extremes).to_string(),
        r#"{"egressBurst":8,"egressRate":1999,"ingressBurst":34359738352,"ingressRate":999}"#
    );
    assert_eq!(
        traffic_shaping_argument(&extremes, RateUnit::KilobitsPerSecond).to_string(),
        r#"{"egressBurst":"1","egressRate":"1","ingressBurst":"34359738","ingressRate":"1"}"#
    );
    assert_eq!(bandwidth_argument(&Limits::default()).to_string(), "{}");
}
