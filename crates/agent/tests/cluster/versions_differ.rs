//! The agent beside definitions and a controller of other versions.

use serde_json::{Value, json};

use crate::controller::apps;
use crate::stage;
use crate::world::{SLICE, World};

const REPORT: &str = "NetworkQoSNodeReport";
const VERSION: &str = "netqos.io/v1alpha1";

/// The definition of this name, as this version has it.
fn definition(name: &str) -> Value {
    let definitions = netqos_k8s::definitions();
    let crds = definitions.iter().map(|it| it.crd().unwrap());
    let mut crds = crds.map(|crd| serde_json::to_value(crd).unwrap());
    crds.find(|crd| crd["metadata"]["name"] == name).unwrap()
}

fn delete_definition(world: &World, name: &str) {
    let (version, kind) = ("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    world.delete_in("", version, kind, name);
}

fn reasons(world: &World) -> Vec<String> {
    let problems = world.problems().into_iter();
    problems.map(|(reason, _)| reason).collect()
}

/// An apply with a field that the definition does not have is refused as a whole.
#[test]
fn with_an_older_definition_its_report_is_one_as_an_older_agent_writes_it() {
    let Some(mut world) = World::new() else {
        return;
    };
    let name = "networkqosnodereports.netqos.io";
    let mut older = definition(name);
    let path = "/spec/versions/0/schema/openAPIV3Schema/properties/policies/items/properties";
    let fields = older.pointer_mut(path).unwrap().as_object_mut().unwrap();
    fields.remove("uid").unwrap();
    world.define(&older);
    world.create_policy("p", 10);
    world.start_agent();
    let told = || {
        let report = world.list(VERSION, REPORT).pop();
        report.map(|report| report["policies"].clone())
    };
    let expected = json!([{"namespace": "games", "name": "p", "generation": 1}]);
    assert!(stage::eventually(|| told() == Some(expected.clone())));
    assert!(stage::log().contains("without the uids of policies"));
    world.define(&definition(name));
}

#[test]
fn without_a_definition_it_says_so_and_all_else_is_in_force() {
    let Some(mut world) = World::new() else {
        return;
    };
    let name = "bandwidthprofiles.netqos.io";
    delete_definition(&world, name);
    let flow = world.marked(10);
    assert_eq!(reasons(&world), ["DefinitionMissing"]);
    let problems = world.problems();
    let (_, message) = &problems[0];
    assert!(
        message.contains("does not know bandwidthprofiles"),
        "{message}"
    );
    world.mark("p", 20);
    flow.wait_for_after(10, 20);
    drop(flow.end());

    world.define(&definition(name));
    assert!(stage::eventually(|| reasons(&world).is_empty()));
}

/// They go with it, and what was known of them stays in force.
#[test]
fn when_the_definition_of_slices_goes_rules_stay_as_they_are() {
    let Some((mut world, mut controller)) = World::sliced() else {
        return;
    };
    world.mark_to("p", 1, 10, &apps(&["b"]));
    controller.publish(&world);
    world.start_agent();
    let flow = world.flow();
    flow.wait_for(10);
    let name = "networkqospeerslices.netqos.io";
    delete_definition(&world, name);
    // As a real server does with those of a kind that is none any more.
    if let Some(server) = world.cluster.as_fixture() {
        server.end_watches();
    }
    let says_so = || {
        let problems = world.problems().into_iter();
        let mut about = problems.filter(|(_, message)| message.contains("networkqospeerslices"));
        about.any(|(reason, _)| reason == "ApiUnavailable")
    };
    assert!(stage::eventually(says_so), "{:?}", world.problems());
    let seen = flow.end_after(500);
    stage::assert_no_loss(&seen);
    assert!(seen.iter().all(|it| it.dscp == 10));
    world.define(&definition(name));
}

#[test]
fn what_a_newer_controller_says_in_a_slice_besides_is_no_matter() {
    let Some((mut world, mut controller)) = World::sliced() else {
        return;
    };
    let Some(server) = world.fixture() else {
        return;
    };
    world.mark_to("p", 1, 10, &apps(&["b"]));
    controller.publish(&world);
    for mut slice in world.list(VERSION, SLICE) {
        slice["format"] = 2.into();
        slice["weights"] = json!({"10.0.0.1": 7});
        slice["metadata"]["labels"]["netqos.io/of-tomorrow"] = "yes".into();
        let plural = "networkqospeerslices";
        server.put_raw(VERSION, plural, slice).unwrap();
    }
    world.start_agent();
    let flow = world.flow();
    flow.wait_for(10);
    assert_eq!(reasons(&world), [""; 0]);
    drop(flow.end());
}
