//! Where koordlet is at work and netQOSPolicy has it divide the lines, netqos writes nothing, takes nothing
//! of koordlet's away, and says so.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::stage;
use super::the_nodes_lines_are_as_its_node_slo_says::{definition, node_slo};
use super::world::World;

const HOME: &str = "koordinator-system";
/// What koordlet has written.
const ITS: &str = "koordlet's";
const LEFT: &str = "netqos leaves the node's lines to it";

fn create_koordlet(world: &World) {
    let pod = json!({
        "metadata": {
            "name": "koordlet", "namespace": HOME, "labels": {"koord-app": "koordlet"},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "koordlet",
                "uid": "11111111-1111-1111-1111-111111111111", "controller": true
            }]
        },
        "spec": {
            "nodeName": "node1", "hostNetwork": true,
            "containers": [{"name": "koordlet", "image": "i"}]
        }
    });
    world.create("v1", "Pod", HOME, pod);
}

fn label(world: &World, labels: Value) {
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "node1", "labels": labels}
    });
    world.apply("v1", "Node", &node);
}

fn file(name: &str) -> PathBuf {
    Path::new("/var/lib/terway/qos").join(name)
}

fn global() -> String {
    fs::read_to_string(file("global_bps_config")).unwrap_or_default()
}

fn is_netqos() -> bool {
    global().starts_with("hw_tx_bps_max 125000000\n")
}

/// Whether this is said of koordlet, and nothing else.
fn is_said(world: &World, words: &str) -> bool {
    let mut problems = world.problems();
    problems.retain(|(reason, _)| reason == "AnotherAtWork");
    matches!(&problems[..], [(_, message)] if message.contains(words))
}

fn backend() -> String {
    stage::status().class_backend
}

#[test]
fn and_are_netqos_where_koordlet_is_gone_or_a_label_says_so() {
    let Some(mut world) = World::new() else {
        return;
    };
    stage::line(&world.node);
    world.flags = vec!["--line", "up0"];
    world.define(&definition());
    let mut slo = node_slo("node1", 20);
    slo["spec"]["resourceQOSStrategy"]["policies"] = json!({"netQOSPolicy": "terway-qos"});
    world.apply("slo.koordinator.sh/v1alpha1", "NodeSLO", &slo);
    world.create("v1", "Namespace", "", json!({"metadata": {"name": HOME}}));
    create_koordlet(&world);
    fs::create_dir_all(file("")).unwrap();
    for name in ["global_bps_config", "pod.json", "per_cgroup_bps_limit"] {
        fs::write(file(name), ITS).unwrap();
    }
    let untouched = fs::metadata(file("pod.json")).unwrap().modified().unwrap();

    world.start_agent();
    assert_eq!(backend(), "none");
    assert!(is_said(&world, LEFT), "{:?}", world.problems());
    let line = || stage::status().lines.remove(0);
    let told = || line().failing.contains("left to koordlet");
    assert!(stage::eventually(told), "{:?}", line());

    // An administrator's word.
    let by_terway = json!({"netqos.io/class-backend": "terway-qos"});
    // Nothing of koordlet's was changed until then.
    for name in ["global_bps_config", "pod.json", "per_cgroup_bps_limit"] {
        assert_eq!(fs::read_to_string(file(name)).unwrap(), ITS);
    }
    let now = fs::metadata(file("pod.json")).unwrap().modified().unwrap();
    assert_eq!(now, untouched);
    label(&world, by_terway);
    assert!(stage::eventually(is_netqos), "{}", stage::log());
    assert_eq!(backend(), "terway-qos");
    let both = || is_said(&world, "both do");
    assert!(stage::eventually(both), "{:?}", world.problems());

    // As it leaves, what koordlet has written meanwhile stays.
    fs::write(file("pod.json"), ITS).unwrap();
    label(&world, json!({}));
    assert!(
        stage::eventually(|| global().is_empty()),
        "{}",
        stage::log()
    );
    assert_eq!(backend(), "none");
    let is_torn_down = || !Path::new("/run/netqos/class-backend").exists();
    assert!(stage::eventually(is_torn_down));
    assert_eq!(fs::read_to_string(file("pod.json")).unwrap(), ITS);
    assert!(!file("per_cgroup_bps_limit").exists());

    // It is gone, for longer than one that is replaced.
    world.delete_in(HOME, "v1", "Pod", "koordlet");
    world.start_agent();
    assert!(stage::eventually(is_netqos), "{}", stage::log());
    assert_eq!(backend(), "terway-qos");

    // And comes.
    create_koordlet(&world);
    assert!(
        stage::eventually(|| global().is_empty()),
        "{}",
        stage::log()
    );
    assert_eq!(backend(), "none");
    assert!(is_said(&world, LEFT), "{:?}", world.problems());
}
