//! From the ConfigMap slo-controller-config to a NodeSLO of each node, where Koordinator's manager does
//! not write them.

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::world::{World, free_address, http};

const BE: &str = "/resourceQOSStrategy/beClass/networkQOS";
const TOTAL: &str = "/systemStrategy/totalNetworkBandwidth";

/// A request of the best-effort class, in both directions.
fn be(request: &Value) -> Value {
    json!({"beClass": {"networkQOS": {"ingressRequest": request, "egressRequest": request}}})
}

/// Both classes ask for something: a request that is stated is not reduced.
fn be_beside_ls(be_request: &str, ls_request: &str) -> Value {
    let request = |request: &str| json!({"networkQOS": {"ingressRequest": request, "egressRequest": request}});
    json!({"beClass": request(be_request), "lsClass": request(ls_request)})
}

fn cluster(strategy: &Value) -> Value {
    json!({"clusterStrategy": strategy})
}

fn total(total: &str) -> Value {
    cluster(&json!({"totalNetworkBandwidth": total}))
}

fn request_of(node: &str, world: &World) -> Value {
    let slo = world.slo(node);
    let path = format!("{BE}/egressRequest");
    slo.pointer(&path).cloned().unwrap_or_default()
}

/// Long enough for two looks.
fn a_while() {
    thread::sleep(Duration::from_secs(3));
}

#[test]
fn each_node_is_told_what_the_config_map_says_of_it() {
    let world = World::new();
    world.define_node_slo();
    world.create_node("slow", &json!({"line": "slow"}), &json!(null));
    world.create_node("said", &json!({"line": "slow"}), &json!(null));
    world.annotate_node("said", "25G");
    let mut resources = cluster(&be(&json!(20)));
    resources["clusterStrategy"]["systemClass"] = json!({"networkQOS": {"egressRequest": 10}});
    resources["nodeStrategies"] = json!([
        {"name": "none", "nodeSelector": {"matchLabels": {"line": "none"}}, "beClass": null},
        {
            "name": "slow", "nodeSelector": {"matchLabels": {"line": "slow"}},
            "policies": {"netQOSPolicy": "tc"},
            "beClass": {"networkQOS": {"egressRequest": "5M"}},
        },
    ]);
    let mut system = total("1000M");
    system["nodeStrategies"] = json!([
        {"nodeSelector": {"matchLabels": {"line": "slow"}}, "totalNetworkBandwidth": "100M"},
    ]);
    world.write_config(&resources, &system);
    // What is there of others, and none of it the network's.
    world.write_slo_as(
        "koordlet",
        "slow",
        &json!({
            "cpuBurstStrategy": {"policy": "none"},
            "resourceQOSStrategy": {"beClass": {"cpuQOS": {"groupIdentity": -1}}},
        }),
    );
    let _one = world.slo_replica("one", &[]);
    for (node, carries, request, policy) in [
        ("node1", "1G", json!(20), Value::Null),
        ("slow", "100M", json!("5M"), json!("tc")),
        ("said", "25G", json!("5M"), json!("tc")),
    ] {
        world.wait_for_slo(node, TOTAL, &json!(carries));
        world.wait_for_slo(node, &format!("{BE}/egressRequest"), &request);
        world.wait_for_slo(node, &format!("{BE}/ingressRequest"), &json!(20));
        // Defaults.
        world.wait_for_slo(node, &format!("{BE}/egressLimit"), &json!(100));
        let ls = "/resourceQOSStrategy/lsClass/networkQOS/egressRequest";
        world.wait_for_slo(node, ls, &json!(30));
        let named = "/resourceQOSStrategy/policies/netQOSPolicy";
        world.wait_for_slo(node, named, &policy);
        // It goes with its node.
        let owners = world.node_slo(node).unwrap()["metadata"]["ownerReferences"].clone();
        let uid = world.node_uid(node);
        let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}]);
        assert_eq!(owners, owner);
    }
    a_while();
    let written = world.slo_writes("one");
    assert_eq!(written, 3, "once each");

    // What is said no more is gone, what was not said stays, and whom it is not about is not written.
    resources["clusterStrategy"] = be(&json!(25));
    resources["nodeStrategies"][1]["beClass"] = json!({"networkQOS": {
        "ingressRequest": 20, "egressRequest": "5M"
    }});
    world.write_config(&resources, &system);
    world.wait_for_slo("node1", &format!("{BE}/egressRequest"), &json!(25));
    world.wait_for_slo("slow", "/resourceQOSStrategy/systemClass", &Value::Null);
    let slow = world.slo("slow");
    assert_eq!(slow["cpuBurstStrategy"], json!({"policy": "none"}));
    let kept = slow.pointer("/resourceQOSStrategy/beClass/cpuQOS");
    assert_eq!(kept, Some(&json!({"groupIdentity": -1})));
    // A label, and what nodes tell all the time.
    let before = world.slo_writes("one");
    world.merge(
        ("v1", "Node", ""),
        "said",
        &json!({"metadata": {"labels": {"a": "b"}}}),
    );
    a_while();
    assert_eq!(
        world.slo_writes("one"),
        before,
        "written though nothing differs"
    );
    world.merge(
        ("v1", "Node", ""),
        "said",
        &json!({"metadata": {"labels": {"line": null}}}),
    );
    world.wait_for_slo("said", &format!("{BE}/egressRequest"), &json!(25));
    world.wait_for_slo("said", TOTAL, &json!("25G"));
    // What somebody takes away, and what somebody deletes, is made again.
    world.write_slo_as("kubectl", "node1", &json!({"systemStrategy": null}));
    world.wait_for_slo("node1", TOTAL, &json!("1G"));
    world.delete_node_slo("node1");
    world.wait_for_slo("node1", TOTAL, &json!("1G"));
}

#[test]
fn what_cannot_be_followed_changes_nothing_and_is_told() {
    let world = World::new();
    world.define_node_slo();
    world.write_config(&cluster(&be(&json!(10))), &total("1000M"));
    let address = free_address();
    let one = world.slo_replica("one", &["--listen", &address]);
    let has = |line: &str| {
        world.eventually(&format!("no {line}"), || {
            let (_, metrics) = http(&address, "GET", "/metrics", "").unwrap();
            metrics
                .lines()
                .any(|it| it == format!("netqos_controller_{line}"))
        });
    };
    world.wait_for_slo("node1", &format!("{BE}/egressRequest"), &json!(10));
    has("slo_config_problems{reason=\"SLOConfigUnreadable\"} 0");
    has("node_slos{state=\"current\"} 1");

    // One key that is no JSON: it says what it said, and the other counts.
    world.write_config(&json!("{\"clusterStrategy\": "), &total("2000M"));
    world.wait_for_slo("node1", TOTAL, &json!("2G"));
    assert_eq!(request_of("node1", &world), 10);
    let said = world.config_event("SLOConfigUnreadable");
    assert!(
        said.starts_with("resource-qos-config: is no JSON object"),
        "{said}"
    );
    has("slo_config_problems{reason=\"SLOConfigUnreadable\"} 1");
    assert!(
        world
            .log(&one)
            .contains("resource-qos-config: is no JSON object")
    );

    // Amounts that are none, by their paths.
    world.write_config(&cluster(&be(&json!(110))), &total("2000M"));
    has("slo_config_problems{reason=\"SLOConfigUnreadable\"} 2");
    assert!(world.log(&one).contains(
        "resource-qos-config.clusterStrategy.beClass.networkQOS.ingressRequest: must be percentage value just in 0-100: 110 is no percentage"
    ));

    // More than the line has.
    world.write_config(&cluster(&be_beside_ls("1900M", "600M")), &total("2000M"));
    let said = world.config_event("SLOConfigContradicts");
    let what = "requests of 2.5 Gbit/s together are above the total of 2 Gbit/s";
    assert!(said.contains(what), "{said}");
    let said = world.node_event("node1", "NodeSLOKept");
    assert!(said.contains(what), "{said}");
    has("node_slos{state=\"kept\"} 1");
    assert_eq!(request_of("node1", &world), 10);
    // A rate above its limit, of a line of which nobody says what it carries.
    let above = json!({"egressRequest": "80M", "egressLimit": "70M"});
    world.write_config(
        &cluster(&json!({"beClass": {"networkQOS": above}})),
        &json!({}),
    );
    let above = "egress: best-effort: a request of 80 Mbit/s is above the limit of 70 Mbit/s";
    world.eventually("it is not told", || {
        let log = world.log(&one);
        let said = |line: &str| line.contains("node node1: it keeps") && line.contains(above);
        log.lines().any(said)
    });
    assert_eq!(request_of("node1", &world), 10);
    world.write_config(&cluster(&be_beside_ls("1900M", "600M")), &total("2000M"));
    // A node whose own line has it is told.
    let wide = json!({"node.koordinator.sh/network-bandwidth": "100G"});
    world.create_node("big", &json!(null), &wide);
    world.wait_for_slo("big", &format!("{BE}/egressRequest"), &json!("1900M"));
    // And one whose annotation is wrong is not, until it is right.
    world.annotate_node("big", "wide");
    let said = world.node_event("big", "NodeSLOKept");
    assert!(
        said.contains("node.koordinator.sh/network-bandwidth"),
        "{said}"
    );
    world.annotate_node("big", "50G");
    world.wait_for_slo("big", TOTAL, &json!("50G"));

    // What is hardly meant is followed, and no contradiction.
    let limited = json!({"systemClass": {"networkQOS": {"egressLimit": 50}}});
    world.write_config(&cluster(&limited), &total("2000M"));
    let said = world.config_event("SLOConfigWarned");
    assert!(said.contains("egressLimit: is not kept"), "{said}");
    has("slo_config_problems{reason=\"SLOConfigWarned\"} 1");
    has("slo_config_problems{reason=\"SLOConfigContradicts\"} 0");
    world.wait_for_slo("node1", &format!("{BE}/egressRequest"), &json!(30));

    // Gone while in use: what it said last stays, for nodes that come as well.
    world.write_config(&cluster(&be(&json!(15))), &total("2000M"));
    world.wait_for_slo("node1", &format!("{BE}/egressRequest"), &json!(15));
    world.delete_config();
    world.config_event("SLOConfigGone");
    has("slo_config_problems{reason=\"SLOConfigGone\"} 1");
    world.create_node("late", &json!(null), &json!(null));
    world.wait_for_slo("late", &format!("{BE}/egressRequest"), &json!(15));
    assert_eq!(request_of("node1", &world), 15);

    // The next one knows nothing of it, and takes nothing back, nor when it finds it half wrong.
    one.stop();
    let before = [world.slo("node1"), world.slo("late")];
    let _two = world.slo_replica("two", &[]);
    world.wait_for_leader("two");
    world.write_config(&json!("["), &total("3000M"));
    world.eventually("nothing is told", || {
        world
            .slo_events("ConfigMap", "slo-controller-config", "SLOConfigUnreadable")
            .len()
            > 1
            || world.log_of("two").contains("SLOConfigUnreadable")
    });
    a_while();
    assert_eq!([world.slo("node1"), world.slo("late")], before);
    assert_eq!(world.slo_writes("two"), 0);
}

/// Also the defaults that older versions wrote for it.
#[test]
fn config_map_without_network_keys_leaves_nothing_of_the_network_in_node_slos() {
    let world = World::new();
    world.define_node_slo();
    world.write_config(&cluster(&be(&json!(30))), &total("1000M"));
    let theirs = json!({"resourceQOSStrategy": {"beClass": {"cpuQOS": {"groupIdentity": -1}}}});
    world.write_slo_as("koordlet", "node1", &theirs);
    world.create_node("own", &json!(null), &json!(null));
    let _one = world.slo_replica("one", &[]);
    world.wait_for_slo("node1", &format!("{BE}/egressRequest"), &json!(30));
    world.wait_for_slo("own", TOTAL, &json!("1G"));
    let cpu = json!({"beClass": {"cpuQOS": {"enable": true}}});
    world.write_config(&cluster(&cpu), &json!({}));
    for node in ["node1", "own"] {
        world.wait_for_slo(node, BE, &Value::Null);
        world.wait_for_slo(node, TOTAL, &json!("0"));
    }
    let kept = "/resourceQOSStrategy/beClass/cpuQOS/groupIdentity";
    world.wait_for_slo("node1", kept, &json!(-1));
    world.create_node("late", &json!(null), &json!(null));
    let before = world.slo_writes("one");
    a_while();
    assert_eq!(world.slo("late"), Value::Null);
    assert_eq!(world.slo_writes("one"), before);
    world.write_config(&cluster(&be(&json!(20))), &json!({}));
    world.wait_for_slo("late", &format!("{BE}/egressRequest"), &json!(20));
}

/// Its manager, as its chart runs it.
fn create_koord_manager(world: &World) {
    let home = "koordinator-system";
    world.create("v1", "Namespace", "", json!({"metadata": {"name": home}}));
    let pod = json!({
        "metadata": {
            "name": "koord-manager-1", "labels": {"koord-app": "koord-manager"},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "koord-manager",
                "uid": "11111111-1111-1111-1111-111111111111", "controller": true
            }]
        },
        "spec": {"nodeName": "node1", "containers": [{"name": "manager", "image": "i"}]}
    });
    world.create("v1", "Pod", home, pod);
}

/// What Koordinator's manager writes of the network.
fn koordinators(request: i64) -> Value {
    json!({
        "cpuBurstStrategy": {"policy": "none"},
        "resourceQOSStrategy": {"beClass": {"networkQOS": {"enable": true, "egressRequest": request}}},
        "systemStrategy": {"totalNetworkBandwidth": "7G"},
    })
}

#[test]
fn where_koordinators_manager_is_at_work_its_objects_are_left_to_it() {
    let world = World::new();
    world.define_node_slo();
    create_koord_manager(&world);
    world.create_node("node2", &json!(null), &json!(null));
    world.write_slo_as("koordinator-manager", "node1", &koordinators(1));
    world.write_config(&cluster(&be(&json!(20))), &total("1000M"));
    let before = world.node_slo("node1");
    let one = world.slo_replica("one", &[]);
    world.eventually("it does not say so", || {
        world.log(&one).contains("left to Koordinator's manager")
    });
    a_while();
    assert_eq!(world.slo_writes("one"), 0);
    assert_eq!(world.node_slo("node1"), before);
    assert_eq!(world.slo("node2"), Value::Null);
    // Its pod is replaced.
    world.delete(("v1", "Pod", "koordinator-system"), "koord-manager-1");
    a_while();
    assert_eq!(world.slo_writes("one"), 0);
    one.stop();
    create_koord_manager(&world);
    let never = world.slo_replica("never", &["--node-slo", "never"]);
    world.wait_for_leader("never");
    a_while();
    assert_eq!(world.slo_writes("never"), 0);
    never.stop();
    let _always = world.slo_replica("always", &["--node-slo", "always"]);
    world.wait_for_slo("node1", TOTAL, &json!("1G"));
    world.wait_for_slo("node1", &format!("{BE}/egressRequest"), &json!(20));
    world.wait_for_slo("node2", TOTAL, &json!("1G"));
    assert_eq!(
        world.slo("node1")["cpuBurstStrategy"],
        json!({"policy": "none"})
    );
}

#[test]
fn what_a_manager_has_left_is_taken_over_and_what_it_writes_again_is_its_own() {
    let world = World::new();
    world.define_node_slo();
    world.write_slo_as("koordinator-manager", "node1", &koordinators(1));
    world.write_config(&cluster(&be(&json!(20))), &total("1000M"));
    let one = world.slo_replica("one", &[]);
    world.wait_for_slo("node1", TOTAL, &json!("1G"));
    world.wait_for_slo("node1", &format!("{BE}/egressRequest"), &json!(20));
    assert_eq!(
        world.slo("node1")["cpuBurstStrategy"],
        json!({"policy": "none"})
    );
    // One whose pods nobody knows: times are in whole seconds.
    thread::sleep(Duration::from_millis(1_100));
    world.write_slo_as("koordinator-manager", "node1", &koordinators(2));
    world.eventually("it goes on", || {
        world
            .log(&one)
            .contains("writes the NodeSLO of node1 again")
    });
    let written = world.slo_writes("one");
    world.write_config(&cluster(&be(&json!(21))), &total("1000M"));
    a_while();
    assert_eq!(
        world.slo_writes("one"),
        written,
        "they overwrite each other"
    );
    assert_eq!(request_of("node1", &world), 2);
}

#[test]
fn what_somebody_else_has_written_stays_and_is_told() {
    let world = World::new();
    world.define_node_slo();
    world.create_node("node2", &json!(null), &json!(null));
    world.write_slo_as("kubectl-edit", "node1", &koordinators(3));
    world.write_config(&cluster(&be(&json!(20))), &total("1000M"));
    let _one = world.slo_replica("one", &[]);
    world.wait_for_slo("node2", TOTAL, &json!("1G"));
    let said = world.node_event("node1", "NodeSLOLeft");
    assert!(said.starts_with("kubectl-edit has written"), "{said}");
    assert_eq!(world.slo("node1"), koordinators(3));
    let written = world.slo_writes("one");
    a_while();
    let now = world.slo_writes("one");
    assert_eq!(now, written, "it is tried again and again");
}

#[test]
fn a_node_that_goes_is_forgotten_and_one_of_its_name_is_another() {
    let world = World::new();
    world.define_node_slo();
    world.create_node("node2", &json!(null), &json!(null));
    world.write_config(&cluster(&be(&json!(20))), &total("1000M"));
    let _one = world.slo_replica("one", &[]);
    world.wait_for_slo("node2", TOTAL, &json!("1G"));
    let first = world.node_uid("node2");
    // Who collects what goes with an object is not here.
    world.delete_node("node2");
    world.delete_node_slo("node2");
    world.write_config(&cluster(&be(&json!(21))), &total("1000M"));
    world.wait_for_slo("node1", &format!("{BE}/egressRequest"), &json!(21));
    a_while();
    assert_eq!(world.slo("node2"), Value::Null);
    world.create_node("node2", &json!(null), &json!(null));
    world.wait_for_slo("node2", &format!("{BE}/egressRequest"), &json!(21));
    let owner = world.node_slo("node2").unwrap()["metadata"]["ownerReferences"][0]["uid"].clone();
    assert_eq!(owner, world.node_uid("node2"));
    assert_ne!(owner, first);
}

#[test]
fn of_two_replicas_the_one_that_leads_writes() {
    let world = World::new();
    world.define_node_slo();
    world.write_config(&cluster(&be(&json!(20))), &total("1000M"));
    let one = world.slo_replica("one", &[]);
    world.wait_for_slo("node1", TOTAL, &json!("1G"));
    let two = world.slo_replica("two", &[]);
    world.eventually("it knows nothing", || {
        world.log(&two).contains("everything is known")
    });
    world.write_config(&cluster(&be(&json!(21))), &total("1000M"));
    world.wait_for_slo("node1", &format!("{BE}/egressRequest"), &json!(21));
    assert_eq!(world.slo_writes("two"), 0);
    one.kill();
    world.write_config(&cluster(&be(&json!(22))), &total("1000M"));
    world.wait_for_slo("node1", &format!("{BE}/egressRequest"), &json!(22));
    assert_eq!(world.slo_writes("two"), 1);
}

#[test]
fn without_a_config_map_or_a_definition_nothing_is_written() {
    let world = World::new();
    let _one = world.slo_replica("one", &[]);
    world.wait_for_leader("one");
    a_while();
    world.write_config(&cluster(&be(&json!(20))), &total("1000M"));
    let said = world.config_event("NodeSLOUndefined");
    assert!(said.contains("deploy/crds/koordinator"), "{said}");
    assert_eq!(world.slo_writes("one"), 0);
    world.define_node_slo();
    world.wait_for_slo("node1", TOTAL, &json!("1G"));
}
