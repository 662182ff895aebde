//! On a cluster: the agent divides the line by the NodeSLO that the controller makes of the ConfigMap, and connections
//! that go on while that changes get what it says.

use std::collections::BTreeMap;

use netqos_api::koordinator::SloConfig;
use netqos_core::Labels;
use serde_json::{Value, json};

use crate::config_map::{assert_followed, of_class, outside};
use crate::stage;
use crate::world::World;

/// The NodeSLO of node1, as the controller makes it of the ConfigMap.
fn node_slo(config: &Value) -> Value {
    let data: BTreeMap<String, String> = serde_json::from_value(config["data"].clone()).unwrap();
    let mut config = SloConfig::default();
    config.update(&data).unwrap();
    let slo = config.for_node(&Labels::default(), &BTreeMap::new());
    json!({
        "apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeSLO",
        "metadata": {"name": "node1"}, "spec": slo.unwrap().to_spec()
    })
}

#[test]
fn shares_that_change_are_seen_in_throughput() {
    let Some(mut world) = World::new() else {
        return;
    };
    let definition = netqos_k8s::node_slo_definition().crd().unwrap();
    world.define(&serde_json::to_value(definition).unwrap());
    for (pod, class) in [("a", "LS"), ("b", "BE")] {
        let metadata = json!({"metadata": {"annotations": of_class(class)}});
        world.patch("v1", "Pod", pod, &metadata);
    }
    let far = outside(&world.node);
    world.start_agent();
    let put = |config: &Value| {
        let slo = node_slo(config);
        world.apply("slo.koordinator.sh/v1alpha1", "NodeSLO", &slo);
    };
    assert_followed(&world.node, &far, [&world.a, &world.b], put);
    assert_eq!(world.problems(), [], "{}", stage::log());
}
