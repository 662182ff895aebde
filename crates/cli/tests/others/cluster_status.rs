//! `netqos status` of a cluster.

use std::process::Stdio;
use std::thread;
use std::time::Duration;

use netqos_faults::Fault;
use serde_json::{Value, json};

use crate::world::World;
use crate::{assert_code, stderr, stdout};

/// A node with an agent, a leader, and a policy that is in force.
fn world() -> World {
    let world = World::new();
    world.node("node1");
    world.put("Namespace", "netqos-system", json!({}));
    world.leader(0);
    world.agents(1, 1, &json!({}));
    world.controllers(env!("CARGO_PKG_VERSION"), 2);
    world.policy("one", "web", 5, &json!([{"dscp": 10}]));
    world.report("node1", &[("one", 1)], &json!([]));
    world.said("one", 1, true, "Programmed", "in force on 1 of 1 node");
    world
}

fn status(world: &World) -> (Value, Option<i32>) {
    world.json(&["status", "--cluster"])
}

#[test]
fn where_all_is_in_force_it_says_so_of_nodes_controller_and_policies() {
    let world = world();
    let (all, code) = status(&world);
    assert_eq!((&all["ready"], code), (&json!(true), Some(0)), "{all}");
    assert_eq!(all["controller"]["leader"], "one");
    let node = &all["nodes"][0];
    assert_eq!(
        (&node["name"], &node["policies"]),
        (&json!("node1"), &json!(1))
    );
    assert_eq!(node["agent"], env!("CARGO_PKG_VERSION"));
    assert!(
        node["reported"].as_str().unwrap().starts_with("20"),
        "{node}"
    );
    let policy = &all["policies"][0];
    assert_eq!(policy["name"], world.name("one"));
    for type_ in ["accepted", "programmed", "ready"] {
        assert_eq!(policy[type_], "True", "{policy}");
    }
    assert_eq!(
        (&policy["nodes"], &policy["pods"]),
        (&json!("1/1"), &json!(1))
    );

    let output = world.run(&["status", "--cluster"]);
    assert_code(&output, 0);
    let table = stdout(&output);
    for words in [
        "controller: one leads",
        "agents: 1 of 1 nodes",
        "node1",
        "1/1",
    ] {
        assert!(table.contains(words), "{words}: {table}");
    }
    let yaml: Value =
        serde_saphyr::from_str(&stdout(&world.run(&["status", "--cluster", "-o", "yaml"])))
            .unwrap();
    assert_eq!(yaml["policies"], all["policies"]);
}

#[test]
fn whatever_is_missing_is_named_and_ends_it_with_1() {
    let missing = |world: &World| {
        let (all, code) = status(world);
        assert_eq!(code, Some(1), "{all}");
        let missing = all["missing"].as_array().unwrap();
        assert_eq!(missing.len(), 1, "{all}");
        missing[0].as_str().unwrap().to_owned()
    };
    let world = world();
    world.leader(-3_600);
    assert!(missing(&world).contains("one led, and has not been heard of since 20"));
    world.leader(3_600);

    world.node("node2");
    world.agents(2, 2, &json!({}));
    assert_eq!(missing(&world), "Node node2: no agent has said anything");
    let problem = json!([{
        "kind": "Node", "name": "node2", "reason": "KernelFeatureMissing", "message": "no tcx"
    }]);
    world.report("node2", &[], &problem);
    assert_eq!(
        missing(&world),
        "Node node2: Node node2: KernelFeatureMissing: no tcx"
    );
    world.report("node2", &[], &json!([]));

    // What was said of the generation before says nothing of this one.
    world.policy("one", "web", 6, &json!([{"dscp": 10}]));
    let name = world.name("one");
    let right = format!("NetworkQoS {name}: nothing is said of generation 2 yet");
    assert_eq!(missing(&world), right);
    world.said("one", 2, false, "Pending", "in force on 0 of 1 node");
    let right = format!("NetworkQoS {name}: Pending: in force on 0 of 1 node");
    assert_eq!(missing(&world), right);
}

/// Ready pods of the DaemonSet are no agents then, and that no node says anything is as it should be.
#[test]
fn where_netqos_leaves_it_says_so_and_that_nothing_is_in_force() {
    let world = world();
    world.leaving(1, 1);
    world.no_report("node1");
    world.said("one", 1, false, "Leaving", "node1: netqos leaves the node");
    let (all, code) = status(&world);
    assert_eq!((&all["ready"], code), (&json!(false), Some(1)), "{all}");
    let name = world.name("one");
    let right = [
        "agents: DaemonSet netqos-system/netqos-agent: netqos is leaving: it has taken everything out \
         of force on 1 of 1 nodes"
            .to_owned(),
        format!("NetworkQoS {name}: Leaving: node1: netqos leaves the node"),
    ];
    assert_eq!(all["missing"], json!(right));
    assert_eq!(all["workloads"][0]["leaving"], true);
    let table = stdout(&world.run(&["status", "--cluster"]));
    assert!(
        table.contains("netqos-agent: leaving, through with 1 of 1"),
        "{table}"
    );
}

#[test]
fn dead_agents_are_missed_though_their_reports_are_there() {
    let world = world();
    let missing = |right: &str| {
        let (all, code) = status(&world);
        assert_eq!((&all["missing"], code), (&json!([right]), Some(1)), "{all}");
    };
    world.agents(1, 0, &json!({}));
    missing("agents: DaemonSet netqos-system/netqos-agent: 0 of 1 are ready");
    let output = world.run(&["status", "--wait=100ms"]);
    assert_code(&output, 1);
    world.agents(1, 1, &json!({}));
    world.controllers(env!("CARGO_PKG_VERSION"), 1);
    missing("controller: Deployment netqos-system/netqos-controller: 1 of 2 are ready");
}

#[test]
fn agents_are_missed_where_their_daemon_set_wants_them_and_nowhere_else() {
    let world = world();
    // It is neither selected nor tolerated, which only the DaemonSet's status shows.
    world.node("node2");
    let (all, code) = status(&world);
    assert_eq!((&all["missing"], code), (&json!([]), Some(0)), "{all}");
    assert_eq!(all["nodes"][1]["meant"], false, "{all}");
    world.node("node3");
    world.agents(2, 2, &json!({}));
    let (all, code) = status(&world);
    assert_eq!(code, Some(1), "{all}");
    let right = "agents: they are to run on 2 nodes, and have said something on 1; nothing has come \
                 from node2, node3";
    assert_eq!(all["missing"], json!([right]));
    // With a selector that no node has the reports of others do not count.
    world.agents(1, 1, &json!({"pool": "games"}));
    let (all, code) = status(&world);
    assert_eq!((&all["nodes"], code), (&json!([]), Some(1)), "{all}");
}

#[test]
fn a_lease_is_judged_by_the_clock_of_the_server() {
    let world = world();
    let front = world.front();
    for hour in [-3_600, 3_600] {
        front.inject(Fault::clock(hour));
        world.leader(hour);
        let (all, code) = status(&world);
        assert_eq!(
            (&all["missing"], code),
            (&json!([]), Some(0)),
            "{hour}: {all}"
        );
        world.leader(hour - 60);
        let (all, code) = status(&world);
        assert_eq!(code, Some(1), "{hour}: {all}");
        assert!(
            all["controller"]["silentSince"].is_string(),
            "{hour}: {all}"
        );
        front.heal();
    }
}

#[test]
fn what_may_not_be_seen_is_said_once_however_long_it_waits() {
    let world = world();
    let front = world.front();
    front.inject(Fault::status(403).on("list", "daemonsets"));
    world.said("one", 1, false, "Pending", "in force on 0 of 1 node");
    let output = world.run(&["status", "--wait=3s"]);
    let said = stderr(&output);
    let requests = front.requests();
    let asked = requests.iter().filter(|it| it.resource == "daemonsets");
    assert!(asked.count() > 1, "{said}");
    assert_eq!(
        said.matches("left out: you may not list daemonsets")
            .count(),
        1,
        "{said}"
    );
}

#[test]
fn what_is_left_to_others_is_told_and_nothing_is_missing() {
    let world = world();
    let left = json!([{
        "kind": "Node", "name": "node1", "reason": "AnnotationsElsewhere", "message": "by Cilium"
    }]);
    world.report("node1", &[("one", 1)], &left);
    let (all, code) = status(&world);
    assert_eq!((&all["missing"], code), (&json!([]), Some(0)), "{all}");
    assert_eq!(
        all["nodes"][0]["left"],
        json!(["Node node1: AnnotationsElsewhere: by Cilium"])
    );
    let table = stdout(&world.run(&["status", "--cluster"]));
    assert!(table.contains("left to others:\n  node1: "), "{table}");
}

#[test]
fn of_a_namespace_its_policies_alone_count() {
    let world = world();
    world.node("node2");
    let (all, code) = world.json(&["status", "-n", &world.games]);
    assert_eq!(code, Some(0), "{all}");
    let (all, code) = world.json(&["status", "-n", "default"]);
    assert_eq!((&all["policies"], code), (&json!([]), Some(0)));
}

#[test]
fn it_waits_until_all_is_in_force() {
    let world = world();
    world.said("one", 1, false, "Pending", "in force on 0 of 1 node");
    let mut command = world.command(&["status", "--wait=60s"]);
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Long enough to have asked once, as what it says shows.
    thread::sleep(Duration::from_millis(1_500));
    world.said("one", 1, true, "Programmed", "in force on 1 of 1 node");
    let output = child.wait_with_output().unwrap();
    assert_code(&output, 0);
    let waiting = format!(
        "netqos: waiting for NetworkQoS {}: Pending",
        world.name("one")
    );
    assert!(stderr(&output).starts_with(&waiting), "{output:?}");
    assert!(stdout(&output).contains("one leads"));
}

#[test]
fn it_says_what_is_missing_when_it_has_waited_in_vain() {
    let world = world();
    world.said("one", 1, false, "Pending", "in force on 0 of 1 node");
    let output = world.run(&["status", "--wait=100ms"]);
    assert_code(&output, 1);
    let said = stderr(&output);
    let (_, missing) = said
        .split_once("netqos: after 100ms this is missing:\n")
        .unwrap();
    let right = format!(
        "  NetworkQoS {}: Pending: in force on 0 of 1 node\n",
        world.name("one")
    );
    assert_eq!(missing, right);
    let output = world.run(&["status", "--wait=soon"]);
    assert_code(&output, 2);
}

#[test]
fn flags_of_the_cluster_may_stand_before_the_command() {
    let world = world();
    let file = world.kubeconfig();
    let flags = ["-n", "games", "--kubeconfig", file.to_str().unwrap()];
    let before = crate::run(&[&flags[..], &["status", "-o", "json"]].concat());
    let behind = crate::run(&[&["status", "-o", "json"], &flags[..]].concat());
    assert_eq!(before.status.code(), behind.status.code(), "{before:?}");
    assert_eq!(stdout(&before), stdout(&behind), "{before:?}");
    let status: Value = serde_json::from_str(&stdout(&before)).unwrap();
    assert!(status["policies"].is_array(), "{before:?}");
}
