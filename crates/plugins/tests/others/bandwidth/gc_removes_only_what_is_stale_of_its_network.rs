//! GC: what carries our tag, is of the network and of no attachment that is alive; nothing else.

use netqos_bpf::Settings;
use netqos_core::{Attachment, Direction};
use netqos_datapath::Owner;
use netqos_testkit::{Call, Pod};
use serde_json::{Value, json};

use super::calls::{add, call, check, gc, limited, node, on_node, plugin, start};
use super::kernel::{assert_no_limits, everything, limiters, links_of_kind, pins};

/// Attachments on their way of egress and hook, half of which will be stale.
const WAYS: [(&str, &str, &str); 4] = [
    ("a", "clsact", "pod"),
    ("b", "tcx", "ifb"),
    ("c", "clsact", "ifb"),
    ("d", "tcx", "pod"),
];

fn alive(containers: &[&str]) -> Value {
    containers
        .iter()
        .map(|id| json!({"containerID": id, "ifname": "eth0"}))
        .collect()
}

fn config_of(pod: &Pod, hook: &str, egress: &str, network: &str) -> Value {
    let more = json!({"hook": hook, "egress": egress, "name": network});
    limited(pod, more)
}

/// What others have on the node, like ours to look at.
const FOREIGN: &str = "ip link add bwp000000000000 type ifb; ip link add theirs type ifb; \
    ip link set dev theirs alias netqos; ip link add plain type veth peer name other; \
    ip link set dev plain alias uplink:net:a:eth0; \
    tc qdisc add dev plain root handle 1: tbf rate 1mbit burst 10k limit 10k; \
    tc qdisc add dev plain clsact; \
    tc filter add dev plain egress pref 7 protocol all u32 match u32 0 0";

#[test]
fn of_two_networks() {
    let Some(node) = node() else { return };
    on_node(&node, FOREIGN);
    let pods: Vec<_> = WAYS.map(|(name, ..)| node.pod(name).unwrap()).into();
    let elsewhere = node.pod("e").unwrap();
    let all: Vec<&Pod> = pods.iter().chain([&elsewhere]).collect();
    let bare = everything(&all);
    let of_elsewhere = config_of(&elsewhere, "clsact", "ifb", "other");
    add(&elsewhere, &of_elsewhere);
    let configs: Vec<_> = WAYS
        .iter()
        .zip(&pods)
        .map(|((_, hook, egress), pod)| config_of(pod, hook, egress, "net"))
        .collect();
    let add_all = || {
        for (pod, config) in pods.iter().zip(&configs) {
            add(pod, config);
        }
    };
    for kept in [&["a", "b"][..], &["c", "d"], &[], &["a", "b", "c", "d"]] {
        add_all();
        let before = everything(&all);
        for time in ["first", "second"] {
            gc("net", alive(kept));
            for (key, held) in everything(&all) {
                let is_kept = before[&key] == held;
                let is_bare = bare.get(&key) == Some(&held);
                assert!(is_kept || is_bare, "{kept:?}, {time} time: {key}: {held:?}");
            }
            for (pod, config) in pods.iter().zip(&configs) {
                let checked = call("CHECK", pod, config).run().unwrap();
                let is_in_force = checked.code == Some(0);
                assert_eq!(
                    is_in_force,
                    kept.contains(&pod.name()),
                    "{kept:?}, {time} time: {}",
                    pod.name()
                );
            }
            check(&elsewhere, &of_elsewhere);
            assert_eq!(
                limiters().len(),
                2 * (kept.len() + 1),
                "{kept:?}, {time} time"
            );
            // One record and one lock for each.
            assert_eq!(
                node.files("/run/netqos").len(),
                2 * (kept.len() + 1),
                "{kept:?}"
            );
        }
    }
    gc("net", json!(null));
    gc("other", alive(&[]));
    assert_eq!(everything(&all), bare);
    assert_no_limits(&node, "");
}

/// The list under the name that the specification once had for it, and an interface of a container
/// of which another lives.
#[test]
fn by_either_spelling_and_by_interface() {
    let Some((node, pod)) = start() else { return };
    pod.another_veth(&node, "eth1").unwrap();
    let mut config = limited(&pod, json!({}));
    config["prevResult"]["interfaces"] = json!([{"name": "veth-a"}, {"name": "eth1-a"}]);
    let second = |command| call(command, &pod, &config).variable("CNI_IFNAME", "eth1");
    for key in ["cni.dev/valid-attachments", "cni.dev/attachments"] {
        add(&pod, &config);
        second("ADD").succeed().unwrap();
        let mut gc = json!({"cniVersion": "1.1.0", "name": "net", "type": "bandwidth"});
        gc[key] = json!([{"containerID": "a", "ifname": "eth1"}]);
        let call_gc = Call::bare(plugin(), "GC").variable("CNI_PATH", "/opt/cni/bin");
        call_gc.config(&gc).succeed().unwrap();
        assert_eq!(limiters().len(), 2, "{key}");
        second("CHECK").succeed().unwrap();
        assert!(call("CHECK", &pod, &config).fail().is_ok(), "{key}");
        second("DEL").succeed().unwrap();
    }
}

/// Records that were lost, namespaces that are gone, limiters that nobody owns.
#[test]
fn what_nothing_but_a_tag_or_a_number_is_left_of() {
    let Some(node) = node() else { return };
    for (_, hook, egress) in WAYS {
        let what = format!("{hook}, {egress}");
        let (lost, gone) = (node.pod("lost").unwrap(), node.pod("gone").unwrap());
        let living = node.pod("living").unwrap();
        for pod in [&lost, &gone, &living] {
            add(pod, &config_of(pod, hook, egress, "net"));
        }
        for file in node.files("/run/netqos") {
            if file.contains("lost") {
                std::fs::remove_file(file).unwrap();
            }
        }
        gone.remove(&node).unwrap();
        let limiter_of = |network| {
            let nobody = Attachment::try_new(network, "nobody", "eth0").unwrap();
            let owner = Owner::new(&nobody, Direction::Egress);
            let settings = Settings {
                owner: owner.id,
                network: owner.network,
                ..Settings::default()
            };
            let pins = pins().unwrap();
            let id = pins.limiters().claim(&settings, None).unwrap();
            move || pins.limiters().release(id, owner.id).unwrap()
        };
        let (nobodys, anothers) = (limiter_of("net"), limiter_of("other"));
        gc("net", alive(&["living"]));
        check(&living, &config_of(&living, hook, egress, "net"));
        assert!(!nobodys(), "{what}: a limiter of nobody's stayed");
        assert!(anothers(), "{what}: a limiter of another network went");
        assert_eq!(limiters().len(), 2, "{what}");
        let held = everything(&[]);
        let of_lost = &held[lost.host_link()];
        assert!(
            of_lost.tbf.is_none() && of_lost.filters.is_empty() && of_lost.tcx == 0,
            "{what}: {of_lost:?}"
        );
        assert_eq!(of_lost.alias, "", "{what}");
        let ifbs = if egress == "ifb" { 1 } else { 0 };
        assert_eq!(links_of_kind("ifb").len(), ifbs, "{what}");
        let links = node.files("/sys/fs/bpf/netqos/v1/links");
        assert!(
            links.iter().all(|link| link.contains("living")),
            "{what}: {links:?}"
        );
        gc("net", alive(&[]));
        assert_eq!(limiters(), [], "{what}");
        for pod in [&lost, &living] {
            pod.remove(&node).unwrap();
        }
    }
}

#[test]
fn a_living_pod_whose_record_was_lost_keeps_its_limiters() {
    let Some(node) = node() else { return };
    let pod = node.pod("living").unwrap();
    add(&pod, &config_of(&pod, "clsact", "pod", "net"));
    for file in node.files("/run/netqos") {
        std::fs::remove_file(file).unwrap();
    }
    let before = limiters();
    assert_eq!(before.len(), 2);
    gc("other", alive(&[]));
    gc("net", alive(&["living"]));
    assert_eq!(limiters(), before);
}

/// A process that is killed between taking its lock and writing its record leaves the lock.
#[test]
fn locks_that_guard_nothing_go() {
    let Some(node) = node() else { return };
    let pod = node.pod("living").unwrap();
    add(&pod, &config_of(&pod, "clsact", "pod", "net"));
    let before = node.files("/run/netqos");
    std::fs::write("/run/netqos/attachments/net:gone.lock", "").unwrap();
    gc("net", alive(&["living"]));
    assert_eq!(node.files("/run/netqos"), before);
}
