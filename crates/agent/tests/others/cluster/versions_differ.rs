//! The agent beside definitions and a controller of other versions.

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::controller::apps;
use super::stage;
use super::world::{SLICE, World, definition};

const REPORT: &str = "NetworkQoSNodeReport";
const VERSION: &str = "netqos.io/v1alpha1";

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
    let path = "/properties/policies/items/properties";
    without_a_field("uid", path, |report| {
        let policy = json!({"namespace": "games", "name": "p", "generation": 1});
        report["policies"] == json!([policy]) && report["agentPod"] == POD
    });
}

#[test]
fn with_a_definition_that_has_no_pod_of_an_agent_its_report_does_not_say_it() {
    without_a_field("agentPod", "/properties", |report| {
        let policy = &report["policies"][0];
        report["agentPod"].is_null() && policy["name"] == "p" && policy["uid"].is_string()
    });
}

/// Where it is not said that there are more, those that are named would be taken for all.
#[test]
fn with_a_definition_that_has_no_count_of_problems_a_part_of_them_is_not_told() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.define(&without("moreProblems", "/properties"));
    create_more_than_a_report_holds(&world);
    world.start_agent();
    let says_so = || {
        let log = stage::log();
        let mut said = log.lines().filter(|it| it.contains("cannot be told"));
        said.any(|it| it.contains("moreProblems"))
    };
    assert!(stage::eventually(says_so), "{}", stage::log());
    assert_eq!(told(&world), Value::Null);
    // All of them are.
    world.delete("k8s.ovn.org/v1alpha1", "NetworkQoS", "bad0");
    let are_told = || {
        let told = told(&world);
        let problems = told["problems"].as_array();
        problems.is_some_and(|it| it.len() == 100)
    };
    assert!(stage::eventually(are_told), "{}", told(&world));
}

/// With each change the time until all is told again would begin anew.
#[test]
fn with_a_newer_definition_its_report_is_whole_again_however_much_changes() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.define(&without("agentPod", "/properties"));
    world.create_policy("p", 1);
    world.flags.extend(POD_FLAGS);
    world.start_agent_where(&[("NETQOS_REPORT_REFRESH", "5")]);
    let is_there = || told(&world)["policies"][0]["name"] == "p";
    assert!(stage::eventually(is_there), "{}", stage::log());
    assert_eq!(told(&world)["agentPod"], Value::Null);
    world.define(&definition(REPORTS));
    let mut turns = 2..25;
    let is_whole = turns.any(|dscp| {
        world.mark("p", dscp);
        thread::sleep(Duration::from_secs(1));
        told(&world)["agentPod"] == POD
    });
    assert!(is_whole, "{}", told(&world));
}

/// As an agent in a cluster is told it.
const POD: &str = "netqos-system/agent";

const POD_FLAGS: [&str; 4] = ["--pod", "agent", "--pod-namespace", "netqos-system"];

const REPORTS: &str = "networkqosnodereports.netqos.io";

/// The definition of reports without a field.
fn without(field: &str, path: &str) -> Value {
    let mut older = definition(REPORTS);
    let path = format!("/spec/versions/0/schema/openAPIV3Schema{path}");
    let fields = older.pointer_mut(&path).unwrap().as_object_mut().unwrap();
    fields.remove(field).unwrap();
    older
}

/// Policies that each are a problem.
fn create_more_than_a_report_holds(world: &World) {
    world.define_policies_of_any_shape();
    for number in 0..101 {
        let policy = json!({
            "metadata": {"name": format!("bad{number}"), "namespace": "games"}, "spec": {}
        });
        world.create("k8s.ovn.org/v1alpha1", "NetworkQoS", "games", policy);
    }
}

fn told(world: &World) -> Value {
    world.list(VERSION, REPORT).pop().unwrap_or_default()
}

/// What is told where the definition of reports does not have a field, and there is all to tell that a
/// report has room for, and more.
fn without_a_field(field: &str, path: &str, is_right: impl Fn(&Value) -> bool) {
    let Some(mut world) = World::new() else {
        return;
    };
    world.define(&without(field, path));
    world.create_policy("p", 10);
    create_more_than_a_report_holds(&world);
    world.flags.extend(POD_FLAGS);
    world.start_agent();
    let has_told = || is_right(&told(&world));
    assert!(stage::eventually(has_told), "{}", stage::log());
    let said = format!("is told without {field}: ");
    assert!(stage::log().contains(&said), "{}", stage::log());
    // With a newer one it is whole again, by the next agent at the latest.
    world.define(&definition(REPORTS));
    world.start_agent();
    let is_whole = || {
        let report = told(&world);
        let uid = &report["policies"][0]["uid"];
        report["moreProblems"] == 1 && report["agentPod"] == POD && uid.is_string()
    };
    assert!(stage::eventually(is_whole), "{}", told(&world));
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
    let Some((mut world, mut controller)) = World::with_controller() else {
        return;
    };
    world.mark_to("p", 1, 10, &apps(&["b"]));
    controller.publish(&world);
    world.start_agent();
    let flow = world.flow();
    flow.wait_for(10);
    let name = "networkqospeerslices.netqos.io";
    delete_definition(&world, name);
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
    let Some((mut world, mut controller)) = World::with_controller() else {
        return;
    };
    let mut newer = definition("networkqospeerslices.netqos.io");
    let fields = &mut newer["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
    fields["format"] = json!({"type": "integer"});
    let weights = json!({"type": "object", "additionalProperties": {"type": "integer"}});
    fields["weights"] = weights;
    world.define(&newer);
    world.mark_to("p", 1, 10, &apps(&["b"]));
    controller.publish(&world);
    for mut slice in world.list(VERSION, SLICE) {
        slice["format"] = 2.into();
        slice["weights"] = json!({"10.0.0.1": 7});
        slice["metadata"]["labels"]["netqos.io/of-tomorrow"] = "yes".into();
        slice["metadata"]["managedFields"] = Value::Null;
        world.apply(VERSION, SLICE, &slice);
    }
    let written = world.list(VERSION, SLICE);
    assert!(!written.is_empty());
    assert!(written.iter().all(|it| it["weights"]["10.0.0.1"] == 7));
    world.start_agent();
    let flow = world.flow();
    flow.wait_for(10);
    assert_eq!(reasons(&world), [""; 0]);
    drop(flow.end());
}
