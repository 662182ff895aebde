//! Pods that were made before netqos took the original's place.

use std::path::Path;

use netqos_testkit::{Call, Node, Pod};
use serde_json::{Value, json};

use super::calls::{
    CONTAINERD, CRI_O, add, bandwidth, call, check, config, del, on_node, original, state, ways,
};
use super::kernel::{everything, limiters, links_of_kind, on_host};

/// A node with the original, and a pod; nothing where either cannot be had.
fn old_node() -> Option<(Node, &'static Path, Pod)> {
    let original = original()?;
    let node = Node::new().unwrap()?;
    let pod = node.pod("a").unwrap();
    Some((node, original, pod))
}

/// Both limits with this burst in bits, in the version of that time.
fn limits(pod: &Pod, burst: u64, more: Value) -> Value {
    let mut config = config(pod, more);
    config["cniVersion"] = "1.0.0".into();
    config["prevResult"]["cniVersion"] = "1.0.0".into();
    config["runtimeConfig"] = bandwidth(10_000_000, 20_000_000, burst);
    config
}

/// Its result, which is what CHECK and DEL get, goes into the configuration.
fn made_by(original: &Path, pod: &Pod, mut config: Value) -> Value {
    let result = Call::of(original, "ADD", pod, &config).succeed().unwrap();
    config["prevResult"] = result;
    config
}

#[test]
fn check_passes_with_every_runtimes_burst() {
    let Some((node, original, pod)) = old_node() else {
        return;
    };
    for burst in [80_000, 8_000_000, 2_147_483_647, CONTAINERD, CRI_O] {
        let config = made_by(original, &pod, limits(&pod, burst, json!({})));
        let before = state(&node, &pod);
        check(&pod, &config);
        state(&node, &pod).assert_is(&before, burst);
        del(&pod, &config);
    }
    for direction in ["ingress", "egress"] {
        let one = config(
            &pod,
            json!({"cniVersion": "1.0.0", format!("{direction}Rate"): 8000, format!("{direction}Burst"): 80}),
        );
        let config = made_by(original, &pod, one);
        check(&pod, &config);
        del(&pod, &config);
    }
}

#[test]
fn check_notices_what_changed_in_the_originals_words_and_more() {
    let Some((node, original, pod)) = old_node() else {
        return;
    };
    let cases: [(&str, &str, bool); 8] = [
        (
            "tc qdisc change dev veth-a root handle 1: tbf rate 9mbit burst 100000 limit 131250",
            "Rate doesn't match",
            true,
        ),
        (
            "tc qdisc change dev veth-a root handle 1: tbf rate 10mbit burst 100000 limit 131251",
            "Limit doesn't match",
            true,
        ),
        (
            "tc qdisc change dev veth-a root handle 1: tbf rate 10mbit burst 90000 limit 131250",
            "Buffer doesn't match",
            true,
        ),
        (
            "tc qdisc change dev @IFB@ root handle 1: tbf rate 19mbit burst 100000 limit 162500",
            "Rate doesn't match",
            true,
        ),
        ("ip link del @IFB@", "get ifb device: ", true),
        // What the original does not see.
        (
            "tc qdisc del dev veth-a root",
            "Failed to find qdisc",
            false,
        ),
        ("tc qdisc del dev @IFB@ root", "Failed to find qdisc", false),
        (
            "tc filter del dev veth-a ingress",
            "egress of veth-a: traffic is not redirected to ",
            false,
        ),
    ];
    let ifb = netqos_api::ifb_name("net", "a");
    for (sabotage, text, it_sees_it) in cases {
        let config = made_by(original, &pod, limits(&pod, 800_000, json!({})));
        check(&pod, &config);
        on_node(&node, &sabotage.replace("@IFB@", &ifb));
        let (code, message) = call("CHECK", &pod, &config).fail().expect(sabotage);
        assert_eq!(code, 999);
        assert!(message.starts_with(text), "{sabotage}: {message}");
        let its = Call::of(original, "CHECK", &pod, &config).run().unwrap();
        assert_eq!(its.code != Some(0), it_sees_it, "{sabotage}: {its:?}");
        if it_sees_it && !text.ends_with(": ") {
            let its: Value = serde_json::from_str(&its.stdout).unwrap();
            assert_eq!(its["msg"], message, "{sabotage}");
        }
        del(&pod, &config);
    }
}

/// It leaves the veth's queue, and a redirect to a device that is gone: a pod that lives on is cut
/// off. Ours puts the veth back to what it was.
#[test]
fn del_cleans_up_as_it_would_and_more() {
    let Some((node, original, pod)) = old_node() else {
        return;
    };
    let before = state(&node, &pod);
    for told in ["everything", "no result", "no namespace"] {
        let config = made_by(original, &pod, limits(&pod, 800_000, json!({})));
        assert_eq!(links_of_kind("ifb").len(), 1);
        let call = call("DEL", &pod, &config);
        let call = match told {
            "no result" => {
                let mut config = config.clone();
                config["prevResult"] = Value::Null;
                call.config(&config)
            }
            "no namespace" => call.without("CNI_NETNS"),
            _ => call,
        };
        call.succeed().unwrap();
        state(&node, &pod).assert_is(&before, told);
    }
    // Only an ingress limit, of which nothing but the queue on the listed veth tells.
    let ingress = json!({"cniVersion": "1.0.0", "ingressRate": 8000, "ingressBurst": 80});
    let config = made_by(original, &pod, config(&pod, ingress));
    del(&pod, &config);
    state(&node, &pod).assert_is(&before, "ingress");
}

/// Its DEL leaves a redirect to a device that is gone, which drops all that the pod sends.
#[test]
fn what_its_own_del_left_goes_too() {
    let Some((node, original, pod)) = old_node() else {
        return;
    };
    let before = state(&node, &pod);
    let leave = || {
        let config = made_by(original, &pod, limits(&pod, 800_000, json!({})));
        Call::of(original, "DEL", &pod, &config).succeed().unwrap();
        assert_eq!(on_host("veth-a").filters[0], "ingress 1 u32 to nowhere");
        config
    };
    del(&pod, &leave());
    state(&node, &pod).assert_is(&before, "DEL");
    leave();
    let ours = limits(&pod, 800_000, json!({"hook": "none"}));
    add(&pod, &ours);
    assert_eq!(on_host("veth-a").filters, [""; 0]);
    check(&pod, &ours);
    del(&pod, &ours);
    state(&node, &pod).assert_is(&before, "ADD");
}

/// After ADD of ours nothing is left of the other's way, and the state is that of a fresh pod.
#[test]
fn add_adopts_them() {
    let Some((node, original, pod)) = old_node() else {
        return;
    };
    let bare = everything(&[&pod]);
    for (hook, egress) in ways() {
        for burst in [800_000, CONTAINERD] {
            let what = format!("{hook}, {egress}, {burst}");
            let ours = limits(&pod, burst, json!({"hook": hook, "egress": egress}));
            let result = add(&pod, &ours);
            let fresh = everything(&[&pod]);
            del(&pod, &ours);
            made_by(original, &pod, limits(&pod, burst, json!({})));
            let adopted = add(&pod, &ours);
            assert_eq!(everything(&[&pod]), fresh, "{what}");
            let names = |result: &Value| -> Vec<Value> {
                let interfaces = result["interfaces"].as_array().unwrap();
                interfaces.iter().map(|i| i["name"].clone()).collect()
            };
            assert_eq!(names(&adopted), names(&result), "{what}");
            check(&pod, &ours);
            del(&pod, &ours);
            assert_eq!(everything(&[&pod]), bare, "{what}");
            assert_eq!(limiters(), [], "{what}");
        }
    }
    assert_eq!(node.files("/run/netqos"), [""; 0]);
}

/// The way back: what we left is nothing that it stumbles over.
#[test]
fn it_can_take_over_again() {
    let Some((node, original, pod)) = old_node() else {
        return;
    };
    for (hook, egress) in ways() {
        let ours = limits(&pod, 800_000, json!({"hook": hook, "egress": egress}));
        add(&pod, &ours);
        del(&pod, &ours);
        let config = made_by(original, &pod, limits(&pod, 800_000, json!({})));
        Call::of(original, "CHECK", &pod, &config)
            .succeed()
            .unwrap();
        del(&pod, &config);
    }
    // And its DEL of a pod of ours by ifb removes the device by its name, as of its own.
    let ours = limits(&pod, 800_000, json!({"egress": "ifb"}));
    add(&pod, &ours);
    Call::of(original, "DEL", &pod, &ours).succeed().unwrap();
    assert_eq!(links_of_kind("ifb"), [""; 0]);
    assert_eq!(on_host("veth-a").alias, "netqos:net:a:eth0");
    del(&pod, &ours);
    assert_eq!(node.files("/run/netqos"), [""; 0]);
}
