//! On a kernel that lacks a qdisc, a link, a filter or an action: what can be held is held, and for
//! the rest STATUS, ADD and CHECK say in one line what is missing. The kernel is the one that the
//! tests run on, asked for names that it does not know.

use netqos_testkit::{Call, Outcome};
use serde_json::{Value, json};

use super::calls::{
    CONTAINERD, call, del, limited, node, plugin, start, state, succeeded, warm_up,
};

/// The kernel's words for what it lacks.
const NO_QDISC: &str = "Specified qdisc kind is unknown";
const NO_LINK: &str = "Unknown device type";
const NO_FILTER: &str = "TC classifier not found";
const NO_ACTION: &str = "Failed to load TC action module";

const PLAIN: &str = "limits are held by tbf alone";
const RANKED: &str = "limits are held by tbf, flows ranked by eBPF on clsact";

fn status(more: &Value, lacking: &str) -> Outcome {
    let mut config = json!({"cniVersion": "1.1.0", "name": "net", "type": "bandwidth"});
    let all = config.as_object_mut().unwrap();
    all.extend(more.as_object().unwrap().clone());
    let call = Call::bare(plugin(), "STATUS").variable("CNI_PATH", "/opt/cni/bin");
    let call = call.config(&config).on_kernel_without(&[lacking]);
    call.run().unwrap()
}

#[track_caller]
fn error(outcome: &Outcome) -> (u64, String) {
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    let error: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let text = error["msg"].as_str().unwrap().to_owned();
    assert_eq!(text.lines().count(), 1, "{text}");
    (error["code"].as_u64().unwrap(), text)
}

/// What there is no limit without: STATUS names it with what to do, ADD fails with the kernel's
/// words and changes nothing, CHECK finds nothing in force.
#[test]
fn what_cannot_be_held_is_refused_and_nothing_is_changed() {
    let Some(node) = node() else { return };
    node.parent_link("parent").unwrap();
    let veth = node.pod("a").unwrap();
    let macvlan = node.macvlan_pod("m", "parent").unwrap();
    // What is loaded stays.
    warm_up(&veth);

    let pods = [&veth, &macvlan];
    let ifb = json!({"egress": "ifb"});
    let (clsact, tcx) = (json!({"hook": "clsact"}), json!({"hook": "tcx"}));
    let redirect = "filter u32 with action mirred";
    for (lacking, words, feature, module, asked, refused) in [
        (
            "tbf",
            NO_QDISC,
            "qdisc tbf",
            "sch_tbf",
            &json!({}),
            &pods[..],
        ),
        ("tbf", NO_QDISC, "qdisc tbf", "sch_tbf", &ifb, &pods),
        ("ifb", NO_LINK, "link ifb", "ifb", &ifb, &pods),
        ("u32", NO_FILTER, redirect, "cls_u32", &ifb, &pods),
        ("mirred", NO_ACTION, redirect, "act_mirred", &ifb, &pods),
        (
            "clsact",
            NO_QDISC,
            "qdisc clsact",
            "sch_ingress",
            &clsact,
            &pods,
        ),
        ("bpf", NO_FILTER, "filter bpf", "cls_bpf", &clsact, &pods),
        (
            "pfifo_fast",
            NO_QDISC,
            "qdisc pfifo_fast",
            "pfifo_fast",
            &clsact,
            &pods,
        ),
        (
            "pfifo_fast",
            NO_QDISC,
            "qdisc pfifo_fast",
            "pfifo_fast",
            &tcx,
            &pods,
        ),
    ] {
        let what = format!("{asked} without {lacking}");
        let (code, text) = error(&status(asked, lacking));
        assert_eq!(code, 50, "{what}: {text}");
        let named = format!("this kernel lacks {feature} (");
        assert!(text.starts_with(&named), "{what}: {text}");
        assert!(text.contains(words), "{what}: {text}");
        let (_, remedy) = text.rsplit_once("): ").unwrap();
        assert!(remedy.contains(module), "{what}: {text}");

        for pod in refused {
            let what = format!("{what}, {}", pod.name());
            let before = state(&node, pod);
            let config = limited(pod, asked.clone());
            let add = call("ADD", pod, &config).on_kernel_without(&[lacking]);
            let (code, text) = error(&add.run().unwrap());
            assert_eq!(code, 999, "{what}: {text}");
            assert!(text.contains(words), "{what}: {text}");
            let advice = ": the kernel lacks it; `netqos check` says what, and what to do";
            assert!(text.ends_with(advice), "{what}: {text}");
            state(&node, pod).assert_is(&before, &what);

            let check = call("CHECK", pod, &config).on_kernel_without(&[lacking]);
            assert_eq!(error(&check.run().unwrap()).0, 999, "{what}");
            state(&node, pod).assert_is(&before, &what);
            del(pod, &config);
        }
    }
}

/// What a limit does without: it is held, and STATUS and ADD say the same of how.
#[test]
fn what_can_be_held_without_it_is_held() {
    let Some((_node, pod)) = start() else { return };
    for (lacking, mode) in [
        ("pfifo_fast", PLAIN),
        ("clsact", PLAIN),
        ("bpf", PLAIN),
        ("ifb", RANKED),
        ("u32", RANKED),
        ("mirred", RANKED),
    ] {
        let said = status(&json!({}), lacking);
        assert_eq!(said.code, Some(0), "{lacking}: {said:?}");
        assert!(said.stderr.contains(mode), "{lacking}: {said:?}");

        let config = limited(&pod, json!({}));
        let added = succeeded(&call("ADD", &pod, &config).on_kernel_without(&[lacking]));
        let unranked = "flows are not ranked: ";
        let count = if mode == PLAIN { 2 } else { 0 };
        assert_eq!(added.stderr.matches(unranked).count(), count, "{added:?}");
        let check = call("CHECK", &pod, &config).on_kernel_without(&[lacking]);
        check.succeed().unwrap();
        del(&pod, &config);
    }
}

/// A pod without an end on the host needs an ifb for its ingress: STATUS warns where all else is
/// well, and ADD and CHECK of such a pod fail.
#[test]
fn ingress_of_a_macvlan_pod_needs_ifb_and_redirect() {
    let Some(node) = node() else { return };
    node.parent_link("parent").unwrap();
    let pod = node.macvlan_pod("m", "parent").unwrap();
    for (lacking, words, remedy) in [
        ("ifb", NO_LINK, "load the module ifb"),
        ("u32", NO_FILTER, "load the modules cls_u32 and act_mirred"),
        (
            "mirred",
            NO_ACTION,
            "load the modules cls_u32 and act_mirred",
        ),
    ] {
        let said = status(&json!({}), lacking);
        assert_eq!(said.code, Some(0), "{lacking}: {said:?}");
        let warning = "interfaces without an end on the host have no ingress limit: ";
        let lines: Vec<_> = said.stderr.lines().collect();
        let warned = lines.iter().find(|line| line.contains(warning)).unwrap();
        assert!(
            warned.contains(words) && warned.contains(remedy),
            "{warned}"
        );

        let before = state(&node, &pod).without("/sys/fs/bpf");
        let config = limited(&pod, json!({}));
        let add = call("ADD", &pod, &config).on_kernel_without(&[lacking]);
        let (code, text) = error(&add.run().unwrap());
        assert!(code == 999 && text.contains(words), "{lacking}: {text}");
        let after = state(&node, &pod).without("/sys/fs/bpf");
        after.assert_is(&before, lacking);
        let check = call("CHECK", &pod, &config).on_kernel_without(&[lacking]);
        assert_eq!(error(&check.run().unwrap()).0, 999, "{lacking}");

        // From the pod it can be held.
        let mut config = config;
        config["runtimeConfig"] =
            json!({"bandwidth": {"egressRate": 20_000_000, "egressBurst": CONTAINERD}});
        let add = call("ADD", &pod, &config).on_kernel_without(&[lacking]);
        add.succeed().unwrap();
        let check = call("CHECK", &pod, &config).on_kernel_without(&[lacking]);
        check.succeed().unwrap();
        del(&pod, &config);
    }
}
