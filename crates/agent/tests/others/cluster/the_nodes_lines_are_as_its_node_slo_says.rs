//! Who shares the node's lines, from the API server: its NodeSLO, its Node, its own pods.

use netqos_faults::without_rules;
use serde_json::{Value, json};

use super::stage;
use super::world::World;

const VERSION: &str = "slo.koordinator.sh/v1alpha1";

/// A definition of NodeSLO that takes what ours refuses, as Koordinator's does.
pub(crate) fn definition() -> Value {
    let ours = netqos_k8s::node_slo_definition().crd().unwrap();
    serde_json::to_value(without_rules(&ours)).unwrap()
}

pub(crate) fn node_slo(node: &str, be: u8) -> Value {
    json!({
        "apiVersion": VERSION, "kind": "NodeSLO", "metadata": {"name": node},
        "spec": {
            "resourceQOSStrategy": {"beClass": {"networkQOS": {"egressRequest": be}}},
            "systemStrategy": {"totalNetworkBandwidth": "1000M"},
            "resourceUsedThresholdWithBE": {"enable": true}
        }
    })
}

fn desired() -> Value {
    let state: Value = serde_json::from_str(&stage::ask("/debug/state")).unwrap();
    state["desiredLines"].clone()
}

fn guaranteed() -> Value {
    desired()["lines"]["up0"]["egress"]["bestEffort"]["min"].clone()
}

#[test]
fn and_stay_so_when_that_is_gone() {
    let Some(mut world) = World::new() else {
        return;
    };
    stage::line(&world.node);
    world.flags = vec!["--line", "up0"];
    // Where nobody has heard of the kind nothing is missed.
    world.start_agent();
    assert_eq!(world.problems(), []);
    assert_eq!(desired(), json!({"lines": {}, "pods": {}}));
    world.stop_agent();

    world.define(&definition());
    for (node, be) in [("node1", 20), ("node2", 30)] {
        world.apply(VERSION, "NodeSLO", &node_slo(node, be));
    }
    world.start_agent();
    assert!(
        stage::eventually(|| guaranteed() == 200_000_000),
        "{}",
        desired()
    );
    let pods = desired()["pods"].clone();
    let pods: Vec<&Value> = pods.as_object().unwrap().values().collect();
    assert_eq!(pods.len(), 2, "{pods:?}");
    let of_host = |name: &str| json!([name]);
    let a = pods
        .iter()
        .find(|pod| pod["place"]["addresses"] == json!([world.a.address()]));
    let a = a.unwrap();
    assert_eq!(a["place"]["hostLinks"], of_host(world.a.host_link()));

    // What the Node says goes first, and what is wrong or gone changes nothing.
    let annotated = |text: &str| {
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {
                "name": "node1", "annotations": {"node.koordinator.sh/network-bandwidth": text}
            }
        })
    };
    world.apply("v1", "Node", &annotated("100M"));
    assert!(stage::eventually(|| guaranteed() == 20_000_000));
    let said = |text: &str| {
        world
            .problems()
            .iter()
            .any(|(_, message)| message.contains(text))
    };
    world.apply("v1", "Node", &annotated("fast"));
    assert!(stage::eventually(|| said(
        "node.koordinator.sh/network-bandwidth: \"fast\""
    )));
    assert_eq!(guaranteed(), 20_000_000);
    world.apply(VERSION, "NodeSLO", &node_slo("node1", 130));
    assert!(stage::eventually(|| said(
        "NodeSLO node1: spec.resourceQOSStrategy.beClass.networkQOS.egressRequest: must be percentage value just in 0-100: 130 is no percentage"
    )));
    assert_eq!(guaranteed(), 20_000_000);
    world.delete_in("", VERSION, "NodeSLO", "node1");
    assert!(stage::eventually(|| said(
        "neither a NodeSLO of this node nor"
    )));
    assert_eq!(guaranteed(), 20_000_000);
    world.apply("v1", "Node", &annotated("1000M"));
    world.apply(VERSION, "NodeSLO", &node_slo("node1", 30));
    assert!(
        stage::eventually(|| guaranteed() == 300_000_000 && world.problems().is_empty()),
        "{:?}\n{}\n{}",
        world.problems(),
        desired(),
        stage::log()
    );
    let shares = || {
        world
            .node
            .run("tc", &["class", "show", "dev", "up0"])
            .unwrap()
    };
    assert!(
        stage::eventually(|| shares().contains("rate 300Mbit ceil 1Gbit")),
        "{}",
        shares()
    );

    // As the controller leaves it where the ConfigMap says nothing of the network.
    let silent = json!({
        "apiVersion": VERSION, "kind": "NodeSLO", "metadata": {"name": "node1"},
        "spec": {"resourceQOSStrategy": {"beClass": null}, "systemStrategy": {"totalNetworkBandwidth": "0"}}
    });
    world.delete_in("", VERSION, "NodeSLO", "node1");
    world.apply(VERSION, "NodeSLO", &silent);
    assert!(
        stage::eventually(|| !shares().contains("htb")),
        "{}",
        shares()
    );
    assert_eq!(world.problems(), []);
}
