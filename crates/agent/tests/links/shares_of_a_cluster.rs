//! On a cluster: the controller makes a NodeSLO of the ConfigMap, the agent divides the line by that, and
//! connections that go on while the ConfigMap changes get what it says.

use serde_json::{Value, json};

use crate::config_map::{assert_followed, of_class, outside};
use crate::controller_process::{Process, begin};
use crate::stage;

#[test]
fn shares_that_change_are_seen_in_throughput() {
    let Some((mut world, program)) = begin() else {
        return;
    };
    let definition = netqos_k8s::node_slo_definition().crd().unwrap();
    world.define(&serde_json::to_value(definition).unwrap());
    let namespace = json!({"metadata": {"name": "koordinator-system"}});
    world.create("v1", "Namespace", "", namespace);
    for (pod, class) in [("a", "LS"), ("b", "BE")] {
        let metadata = json!({"metadata": {"annotations": of_class(class)}});
        world.patch("v1", "Pod", pod, &metadata);
    }
    let far = outside(&world.node);
    let _controller = Process::start(&program);
    world.start_agent();
    let put = |config: &Value| world.apply("v1", "ConfigMap", config);
    assert_followed(&world.node, &far, [&world.a, &world.b], put);
    // By way of the object, and of nothing else.
    let slos = world.list("slo.koordinator.sh/v1alpha1", "NodeSLO");
    let [slo] = &slos[..] else { panic!("{slos:?}") };
    let be = &slo["spec"]["resourceQOSStrategy"]["beClass"]["networkQOS"];
    assert_eq!(
        (&be["egressRequest"], &be["egressLimit"]),
        (&json!(10), &json!(15))
    );
    assert_eq!(world.problems(), [], "{}", stage::log());
}
