//! Every kind of bad input: the code and the words that it gets, and that nothing changes, whether
//! the pod had limits before or not.

use netqos_testkit::{Node, Pod, State};
use serde_json::{Value, json};

use super::calls::{
    CONTAINERD, add, bandwidth, call, config, del, limited, limited_to, start, state,
};

const DECODING: u64 = 6;
const CONFIG: u64 = 7;
const NETNS: u64 = 8;
const INTERNAL: u64 = 999;

/// What is wrong with these configurations is found without looking at the pod.
fn configurations() -> Vec<(Value, u64, &'static str)> {
    let shaping = |argument| json!({"runtimeConfig": {"trafficShaping": argument}});
    let of_bandwidth = |argument| json!({"runtimeConfig": {"bandwidth": argument}});
    vec![
        (
            json!({"ingressRate": "10M", "ingressBurst": 8}),
            DECODING,
            "failed to parse network configuration: json: cannot unmarshal string \"10M\" into field ingressRate of type uint64",
        ),
        (
            json!({"egressBurst": -1}),
            DECODING,
            "failed to parse network configuration: json: cannot unmarshal number -1 into field egressBurst of type uint64",
        ),
        (
            of_bandwidth(json!({"IngressRate": 1.5})),
            DECODING,
            "failed to parse network configuration: json: cannot unmarshal number 1.5 into field runtimeConfig.bandwidth.ingressRate of type uint64",
        ),
        (
            of_bandwidth(json!([])),
            DECODING,
            "failed to parse network configuration: json: cannot unmarshal array into field runtimeConfig.bandwidth of type object",
        ),
        (
            json!({"egress": true}),
            DECODING,
            "failed to parse network configuration: json: cannot unmarshal bool true into field egress of type string",
        ),
        (
            json!({"ingressRate": 8, "egressRate": 8, "egressBurst": 8}),
            CONFIG,
            "if rate is set, burst must also be set",
        ),
        (
            json!({"ingressRate": 0, "ingressBurst": 123}),
            CONFIG,
            "if burst is set, rate must also be set",
        ),
        (
            of_bandwidth(json!({"egressBurst": 123})),
            CONFIG,
            "if burst is set, rate must also be set",
        ),
        (
            json!({"ingressRate": 8000, "ingressBurst": u64::from(u32::MAX) * 8}),
            CONFIG,
            "burst cannot be more than 4GB",
        ),
        (
            // The administrator's mistake is not covered up by what the runtime sends.
            json!({"ingressBurst": 8, "runtimeConfig": bandwidth(8000, 8000, CONTAINERD)}),
            CONFIG,
            "if burst is set, rate must also be set",
        ),
        (
            json!({"ingressRate": 7, "ingressBurst": 8}),
            CONFIG,
            "ingressRate: 7 bit/s is less than the kernel's token bucket can hold: the smallest rate is 8 bit/s (0 is no limit)",
        ),
        (
            json!({"egress": "veth"}),
            CONFIG,
            "egress: \"veth\" is unknown; known are \"pod\" and \"ifb\"",
        ),
        (
            json!({"hook": "xdp"}),
            CONFIG,
            "hook: \"xdp\" is unknown; known are \"auto\", \"clsact\", \"tcx\" and \"none\"",
        ),
        (
            json!({"unit": "Mbps"}),
            CONFIG,
            "unit: \"Mbps\" is unknown; known are \"Kbps\" and \"bps\"",
        ),
        (
            json!({"bpffs": "sys/fs/bpf"}),
            CONFIG,
            "bpffs: \"sys/fs/bpf\" is unknown; known are absolute paths",
        ),
        (
            shaping(json!({"ingressRate": "ten"})),
            CONFIG,
            "failed to parse network configuration: runtimeConfig.trafficShaping.ingressRate: \"ten\": ",
        ),
        (
            shaping(json!({"egressRate": "-1M"})),
            CONFIG,
            "failed to parse network configuration: runtimeConfig.trafficShaping.egressRate: \"-1M\" is out of range: ",
        ),
        (
            json!({"prevResult": 5}),
            INTERNAL,
            "could not parse prevResult: ",
        ),
        (
            json!({"prevResult": {"cniVersion": "0.4.0"}}),
            INTERNAL,
            "could not parse prevResult: result type supports [1.0.0 1.1.0] but unmarshalled CNIVersion is \"0.4.0\"",
        ),
        (
            json!({"capabilities": {"bandwidth": "yes"}}),
            DECODING,
            "failed to parse network configuration: ",
        ),
        (
            json!({"runtimeConfig": []}),
            DECODING,
            "failed to parse network configuration: ",
        ),
    ]
}

/// Calls ADD and CHECK, and expects both to say this, and nothing to change.
fn assert_refused(
    node: &Node,
    pod: &Pod,
    before: &State,
    (config, code, text): (&Value, u64, &str),
) {
    for command in ["ADD", "CHECK"] {
        let (said, message) = call(command, pod, config).fail().unwrap();
        let what = format!("{command} {config}: {said} {message}");
        assert_eq!(said, code, "{what}");
        assert!(message.starts_with(text), "{what}");
        assert!(!message.contains('\n'), "{what}");
    }
    state(node, pod).assert_is(before, config);
}

#[test]
fn whether_the_pod_had_limits_or_not() {
    let Some((node, pod)) = start() else { return };
    let good = limited(&pod, json!({}));
    add(&pod, &good);
    del(&pod, &good);
    for is_limited in [false, true] {
        if is_limited {
            add(&pod, &good);
        }
        let before = state(&node, &pod);
        for (more, code, text) in configurations() {
            let config = config(&pod, more);
            assert_refused(&node, &pod, &before, (&config, code, text));
        }
        for variable in ["NETQOS_EGRESS", "NETQOS_HOOK"] {
            let call = call("ADD", &pod, &good).variable(variable, "x");
            let (code, text) = call.fail().unwrap();
            assert_eq!(code, CONFIG);
            assert!(
                text.starts_with(&format!("{variable}: \"x\" is unknown")),
                "{text}"
            );
        }
    }
}

/// What is wrong between the configuration and what is on the node.
#[test]
fn a_pod_that_is_not_as_the_result_says() {
    let Some((node, pod)) = start() else { return };
    let good = limited(&pod, json!({}));
    add(&pod, &good);
    del(&pod, &good);
    let with = |key: &str, value: Value| {
        let mut config = good.clone();
        config["prevResult"][key] = value;
        config
    };
    let eth0 = json!({"name": "eth0", "sandbox": pod.netns()});
    let elsewhere = json!({"name": pod.host_link(), "sandbox": pod.netns()});
    std::fs::write("/run/file", "").unwrap();
    let not_listed = "no veth peer of container interface found in host ns";
    for is_limited in [false, true] {
        if is_limited {
            add(&pod, &good);
        }
        let before = state(&node, &pod);
        for (config, text) in [
            (with("interfaces", json!([])), "no interfaces provided"),
            (with("interfaces", json!([eth0])), not_listed),
            (with("interfaces", json!([eth0, elsewhere])), not_listed),
        ] {
            assert_refused(&node, &pod, &before, (&config, INTERNAL, text));
        }
        for (variable, value, code, text) in [
            (
                "CNI_NETNS",
                "/run/netns/none",
                NETNS,
                "failed to open netns \"/run/netns/none\": ",
            ),
            (
                "CNI_NETNS",
                "/run/file",
                NETNS,
                "failed to open netns \"/run/file\": ",
            ),
            ("CNI_IFNAME", "eth7", INTERNAL, "container interface eth7 "),
        ] {
            for command in ["ADD", "CHECK"] {
                let call = call(command, &pod, &good).variable(variable, value);
                let (said, message) = call.fail().unwrap();
                let what = format!("{command} {value}: {said} {message}");
                assert!(said == code && message.starts_with(text), "{what}");
            }
            state(&node, &pod).assert_is(&before, value);
        }
    }
}

#[test]
fn a_plugin_that_is_the_first_of_its_list() {
    let Some((_node, pod)) = start() else { return };
    for limits in [0, 1_000_000] {
        let mut config = limited_to(&pod, limits, limits, json!({}));
        if limits == 0 {
            config["runtimeConfig"] = json!({});
        }
        config.as_object_mut().unwrap().remove("prevResult");
        for (command, text) in [
            ("ADD", "must be called as chained plugin"),
            ("CHECK", "must be called as a chained plugin"),
        ] {
            let said = call(command, &pod, &config).fail().unwrap();
            assert_eq!(said, (INTERNAL, text.to_owned()));
        }
    }
}
