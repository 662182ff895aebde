//! Pods, and what the plugins of their list get to see of them.

use std::fs;

use serde_json::{Value, json};

use super::*;
use crate::runtime::tests::stage::{Call, Stage, list};

fn pod(annotations: &[(&str, &str)]) -> Pod {
    Pod {
        namespace: "default".to_owned(),
        name: "iperf-slow".to_owned(),
        uid: "36cee2dc".to_owned(),
        annotations: annotations
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
    }
}

const BANDWIDTH: [(&str, &str); 2] = [
    ("kubernetes.io/ingress-bandwidth", "10M"),
    ("kubernetes.io/egress-bandwidth", "1500k"),
];

fn sandbox() -> Sandbox {
    Sandbox::new("c1", "/run/netns/c1")
}

/// A network whose second plugin declares these capabilities.
fn shaping(capabilities: Value) -> NetworkConfigList {
    list(
        "1.0.0",
        json!([{"type": "main"}, {"type": "bandwidth", "capabilities": capabilities}]),
    )
}

fn stage() -> Stage {
    Stage::with(&["main", "bandwidth"], "1.0.0")
}

fn runtime_config(calls: &[Call]) -> Value {
    let [main, bandwidth] = calls else {
        panic!("{} calls", calls.len())
    };
    assert_eq!(main.stdin.get("runtimeConfig"), None);
    bandwidth
        .stdin
        .get("runtimeConfig")
        .cloned()
        .unwrap_or_default()
}

#[test]
fn limits_reach_the_plugin_by_the_capability_that_it_declares() {
    for (capabilities, expected) in [
        (
            json!({"bandwidth": true}),
            json!({"bandwidth": {"ingressRate": 10_000_000, "ingressBurst": 4_294_967_295_u64,
                                 "egressRate": 1_500_000, "egressBurst": 4_294_967_295_u64}}),
        ),
        (
            json!({"trafficShaping": true}),
            json!({"trafficShaping": {"ingressRate": "10000000", "egressRate": "1500000"}}),
        ),
        (
            json!({"bandwidth": false, "io.kubernetes.cri.pod-annotations": true}),
            json!({"io.kubernetes.cri.pod-annotations": {
                "kubernetes.io/ingress-bandwidth": "10M",
                "kubernetes.io/egress-bandwidth": "1500k",
            }}),
        ),
    ] {
        let stage = stage();
        let (runtime, list) = (stage.runtime(), shaping(capabilities));
        let setup = Kubelet::new(&runtime, &list)
            .set_up(&pod(&BANDWIDTH), &sandbox())
            .unwrap();
        assert_eq!(
            setup.limits.ingress.unwrap().rate.bits_per_second(),
            10_000_000
        );
        assert_eq!(setup.result.interfaces[0].name, "bandwidth");
        let calls = stage.calls();
        assert_eq!(runtime_config(&calls), expected);
        assert_eq!(
            calls[0].env["CNI_ARGS"],
            "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=iperf-slow;\
             K8S_POD_INFRA_CONTAINER_ID=c1;K8S_POD_UID=36cee2dc"
        );
    }
}

#[test]
fn traffic_shaping_counts_in_the_unit_of_the_list() {
    let stage = stage();
    let runtime = stage.runtime();
    let of_unit = |unit: Value| {
        let shapes =
            json!({"type": "bandwidth", "unit": unit, "capabilities": {"trafficShaping": true}});
        list("1.0.0", json!([{"type": "main"}, shapes]))
    };
    let kilobits = of_unit(json!("Kbps"));
    Kubelet::new(&runtime, &kilobits)
        .set_up(&pod(&BANDWIDTH), &sandbox())
        .unwrap();
    assert_eq!(
        runtime_config(&stage.calls()),
        json!({"trafficShaping": {"ingressRate": "10000", "egressRate": "1500"}})
    );

    let unknown = of_unit(json!("furlongs"));
    let mut differing = kilobits.clone();
    differing.plugins.extend(of_unit(Value::Null).plugins);
    for (list, words) in [
        (&unknown, "the unit \"furlongs\""),
        (&differing, "different units"),
    ] {
        let error = Kubelet::new(&runtime, list)
            .set_up(&pod(&BANDWIDTH), &sandbox())
            .unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        assert!(stage.calls().is_empty());
    }
}

#[test]
fn a_bad_annotation_is_refused_before_any_plugin_is_called() {
    for (key, value, reason) in [
        ("kubernetes.io/ingress-bandwidth", "10M!", "10M!"),
        (
            "kubernetes.io/egress-bandwidth",
            "999",
            "unreasonably small (< 1kbit)",
        ),
        (
            "kubernetes.io/ingress-bandwidth",
            "2P",
            "unreasonably large (> 1Pbit)",
        ),
    ] {
        let stage = stage();
        let (runtime, list) = (stage.runtime(), shaping(json!({"bandwidth": true})));
        let error = Kubelet::new(&runtime, &list)
            .set_up(&pod(&[(key, value)]), &sandbox())
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("failed to get pod bandwidth from annotations: "),
            "{error}"
        );
        assert!(
            error.contains(key) && error.contains(value) && error.contains(reason),
            "{error}"
        );
        assert!(stage.calls().is_empty());
        assert!(!stage.cache_file().exists());
    }
}

#[test]
fn what_no_plugin_can_be_told_is_a_warning() {
    let latency = [BANDWIDTH[0], ("netqos.io/ingress-latency", "25ms")];
    for (annotations, capabilities, warning) in [
        (
            &BANDWIDTH[..],
            json!({"portMappings": true}),
            Some("it is not limited"),
        ),
        (
            &latency[..],
            json!({"bandwidth": true}),
            Some("the plugin chooses"),
        ),
        (
            &latency[..],
            json!({"bandwidth": true, "io.kubernetes.cri.pod-annotations": true}),
            None,
        ),
        (&[][..], json!({}), None),
    ] {
        let stage = stage();
        let (runtime, list) = (stage.runtime(), shaping(capabilities));
        let setup = Kubelet::new(&runtime, &list)
            .set_up(&pod(annotations), &sandbox())
            .unwrap();
        let warnings: Vec<_> = setup.warnings.iter().map(ToString::to_string).collect();
        match warning {
            None => assert_eq!(warnings, [""; 0]),
            Some(words) => assert!(
                warnings.len() == 1 && warnings[0].contains(words),
                "{warnings:?}"
            ),
        }
        assert_eq!(stage.calls().len(), 2);
    }
}

#[test]
fn teardown_and_check_speak_of_what_was_added() {
    let stage = stage();
    let (runtime, list) = (stage.runtime(), shaping(json!({"bandwidth": true})));
    let kubelet = Kubelet::new(&runtime, &list);
    kubelet.set_up(&pod(&BANDWIDTH), &sandbox()).unwrap();
    let added = runtime_config(&stage.calls());

    // Somebody has broken the annotation since.
    let changed = pod(&[("kubernetes.io/ingress-bandwidth", "nonsense")]);
    kubelet.check(&changed, &sandbox()).unwrap();
    assert_eq!(runtime_config(&stage.calls()), added);

    let mut gone = sandbox();
    gone.netns = None;
    kubelet.tear_down(&changed, &gone).unwrap();
    let mut calls = stage.calls();
    calls.reverse();
    assert_eq!(runtime_config(&calls), added);
    assert!(!stage.cache_file().exists());

    // Without a memory the annotations are what is left; bad ones must not keep a pod from going.
    kubelet.tear_down(&pod(&BANDWIDTH), &gone).unwrap();
    let mut calls = stage.calls();
    calls.reverse();
    assert_eq!(runtime_config(&calls), added);
    kubelet.tear_down(&changed, &gone).unwrap();
    assert_eq!(stage.calls().len(), 2);
}

#[test]
fn a_pod_whose_network_fails_leaves_nothing() {
    let stage = stage();
    let (runtime, list) = (stage.runtime(), shaping(json!({"bandwidth": true})));
    stage.answer(
        "bandwidth",
        "ADD",
        r#"{"code": 999, "msg": "create qdisc: no"}"#,
        1,
    );
    let error = Kubelet::new(&runtime, &list)
        .set_up(&pod(&BANDWIDTH), &sandbox())
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "plugin type=\"bandwidth\" failed (add): create qdisc: no"
    );
    assert_eq!(
        stage.summaries(),
        ["main ADD", "bandwidth ADD", "bandwidth DEL", "main DEL"]
    );
    assert_eq!(
        fs::read_dir(stage.path("cache/results")).map_or(0, Iterator::count),
        0
    );
}
