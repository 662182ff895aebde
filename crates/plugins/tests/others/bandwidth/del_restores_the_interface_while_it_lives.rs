//! DEL: whatever it is told and whatever has gone already, nothing is left.

use netqos_testkit::{Call, Pod};
use serde_json::{Value, json};

use super::calls::{add, call, config, del, limited_by, node, start, state, warm_up, ways};
use super::kernel::{assert_no_limits, limiters, links_of_kind};

/// How a runtime may call it.
type Told = fn(&Pod, &Value) -> Call;

fn with(pod: &Pod, config: &Value, key: &str, value: Value) -> Call {
    let mut config = config.clone();
    config[key] = value;
    call("DEL", pod, &config)
}

const TOLD: [(&str, Told); 10] = [
    ("everything", |pod, config| call("DEL", pod, config)),
    ("no namespace", |pod, config| {
        call("DEL", pod, config).without("CNI_NETNS")
    }),
    ("no result", |pod, config| {
        with(pod, config, "prevResult", Value::Null)
    }),
    ("neither", |pod, config| {
        with(pod, config, "prevResult", Value::Null).without("CNI_NETNS")
    }),
    ("a result that cannot be read", |pod, config| {
        with(pod, config, "prevResult", 5.into())
    }),
    ("a result of another family", |pod, config| {
        with(pod, config, "prevResult", json!({"cniVersion": "0.4.0"}))
    }),
    ("limits that are wrong", |pod, config| {
        with(pod, config, "ingressBurst", 8.into())
    }),
    ("limits that are no numbers", |pod, config| {
        with(pod, config, "ingressRate", "10M".into())
    }),
    ("no limits", |pod, config| {
        with(pod, config, "runtimeConfig", Value::Null)
    }),
    ("an older version", |pod, config| {
        let mut old = config.clone();
        old["cniVersion"] = "0.3.0".into();
        old["prevResult"] = Value::Null;
        call("DEL", pod, &old)
    }),
];

#[test]
fn whatever_it_is_told() {
    let Some((node, pod)) = start() else { return };
    warm_up(&pod);
    let before = state(&node, &pod);
    for (hook, egress) in ways() {
        let config = limited_by(&pod, hook, egress);
        for (what, told) in TOLD {
            let what = format!("{what}, {hook}, {egress}");
            add(&pod, &config);
            assert_eq!(limiters().len(), 2, "{what}");
            for time in ["first", "second"] {
                let said = told(&pod, &config).succeed();
                assert_eq!(said.unwrap(), Value::Null, "{what}, {time} time");
            }
            state(&node, &pod).assert_is(&before, &what);
        }
    }
}

/// A pod that never had a limit, and one that nobody knows.
#[test]
fn with_nothing_to_do_it_does_nothing() {
    let Some((node, pod)) = start() else { return };
    let before = state(&node, &pod);
    for (_, told) in TOLD {
        told(&pod, &config(&pod, json!({}))).succeed().unwrap();
        state(&node, &pod).assert_is(&before, "");
    }
}

/// Without the record it goes by the tags on the links. Whose an empty clsact is nobody knows then.
#[test]
fn after_the_records_were_lost() {
    let Some((node, pod)) = start() else { return };
    warm_up(&pod);
    let without_clsact = || state(&node, &pod).without("qdisc clsact");
    let before = without_clsact();
    for (hook, egress) in ways() {
        let config = limited_by(&pod, hook, egress);
        for (told, call) in &TOLD[..3] {
            if *told == "no namespace" && egress == "pod" {
                continue; // Nothing says where the pod is.
            }
            add(&pod, &config);
            std::fs::remove_dir_all("/run/netqos").unwrap();
            call(&pod, &config).succeed().unwrap();
            without_clsact().assert_is(&before, format_args!("{told}, {hook}, {egress}"));
        }
    }
}

/// What of the pod is gone when DEL is called.
#[test]
fn after_the_pod_has_gone() {
    let Some(node) = node() else { return };
    for (hook, egress) in ways() {
        for gone in ["veth", "namespace"] {
            let what = format!("{gone}, {hook}, {egress}");
            let pod = node.pod("a").unwrap();
            let config = limited_by(&pod, hook, egress);
            add(&pod, &config);
            if gone == "veth" {
                node.run("ip", &["link", "del", pod.host_link()]).unwrap();
                del(&pod, &config);
                pod.remove(&node).unwrap();
            } else {
                pod.remove(&node).unwrap();
                del(&pod, &config);
            }
            assert_eq!(limiters(), [], "{what}");
            assert_eq!(links_of_kind("ifb"), [""; 0], "{what}");
            assert_no_limits(&node, &what);
        }
    }
}
