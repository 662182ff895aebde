//! Sixteen pods at a time, as when a node starts.

use netqos_testkit::{Call, Node, Pod, Running};
use serde_json::{Value, json};

use super::calls::{call, check, del, gc, limited, limited_to, node, start};
use super::kernel::{Held, assert_no_limits, everything, limiters, links_of_kind};

const PODS: usize = 16;

/// Half of them by ifb; every one a limit of its own.
fn config_of(number: usize, pod: &Pod, hook: &str) -> Value {
    let rate = 1_000_000 * (number as u64 + 1);
    let egress = if number.is_multiple_of(2) {
        "pod"
    } else {
        "ifb"
    };
    limited_to(pod, rate, 2 * rate, json!({"hook": hook, "egress": egress}))
}

fn pods(node: &Node, count: usize) -> Vec<Pod> {
    let pod = |number| node.pod(&format!("p{number}")).unwrap();
    (0..count).map(pod).collect()
}

fn configs_of(pods: &[Pod], hook: &str) -> Vec<Value> {
    let numbered = pods.iter().enumerate();
    let configs = numbered.map(|(number, pod)| config_of(number, pod, hook));
    configs.collect()
}

fn start_all(calls: impl IntoIterator<Item = Call>) -> Vec<Running> {
    let running = calls.into_iter().map(|call| call.start().unwrap());
    running.collect()
}

fn start_each(command: &str, pods: &[Pod], configs: &[Value]) -> Vec<Running> {
    let each = pods.iter().zip(configs);
    start_all(each.map(|(pod, config)| call(command, pod, config)))
}

fn assert_succeed(calls: Vec<Running>) {
    for running in calls {
        let outcome = running.finish().unwrap();
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
    }
}

#[test]
fn the_first_of_a_boot_included() {
    let Some(node) = node() else { return };
    let pods = pods(&node, PODS);
    let all: Vec<&Pod> = pods.iter().collect();
    let bare = everything(&all);
    for hook in super::calls::hooks() {
        let configs = configs_of(&pods, hook);
        assert_succeed(start_each("ADD", &pods, &configs));
        for (pod, config) in pods.iter().zip(&configs) {
            check(pod, config);
        }
        assert_eq!(links_of_kind("ifb").len(), PODS / 2);
        let mut owners: Vec<u64> = limiters()
            .iter()
            .map(|(_, limiter)| limiter.owner)
            .collect();
        owners.sort_unstable();
        owners.dedup();
        assert_eq!(owners.len(), 2 * PODS, "{hook}");
        assert_succeed(start_each("DEL", &pods, &configs));
        assert_eq!(everything(&all), bare, "{hook}");
        assert_no_limits(&node, "");
    }
}

/// A runtime that gave up waiting calls again while the first call is still at work.
#[test]
fn of_one_pod() {
    let Some((_node, pod)) = start() else { return };
    let bare = everything(&[&pod]);
    let config = limited(&pod, json!({"egress": "ifb"}));
    for _ in 0..4 {
        let commands = ["ADD", "DEL", "ADD", "ADD", "DEL", "ADD"];
        assert_succeed(start_all(commands.map(|it| call(it, &pod, &config))));
        // Whichever was last, it is all or nothing.
        let now = everything(&[&pod]);
        let checked = call("CHECK", &pod, &config).run().unwrap().code;
        assert!(now == bare || checked == Some(0), "{now:?}");
        del(&pod, &config);
        assert_eq!(everything(&[&pod]), bare);
        assert_eq!(limiters(), []);
    }
}

/// Interfaces of one container want the same name for their ifbs.
#[test]
fn of_the_interfaces_of_one_pod() {
    let Some((node, pod)) = start() else { return };
    let names = ["eth0", "eth1", "eth2", "eth3"];
    let mut interfaces = vec![json!({"name": "veth-a"})];
    for name in &names[1..] {
        interfaces.push(json!({"name": pod.another_veth(&node, name).unwrap()}));
    }
    let mut config = limited(&pod, json!({"egress": "ifb"}));
    config["prevResult"]["interfaces"] = interfaces.into();
    let bare = everything(&[&pod]);
    let all_at_once = |command: &str| {
        let calls = names.map(|name| call(command, &pod, &config).variable("CNI_IFNAME", name));
        assert_succeed(start_all(calls));
    };
    for _ in 0..8 {
        all_at_once("ADD");
        all_at_once("CHECK");
        assert_eq!(links_of_kind("ifb").len(), names.len());
        all_at_once("DEL");
        assert_eq!(everything(&[&pod]), bare);
        assert_no_limits(&node, "");
    }
}

/// While pods come, what is stale goes; what comes stays.
#[test]
fn while_garbage_is_collected() {
    let Some(node) = node() else { return };
    let pods = pods(&node, PODS / 2);
    let configs = configs_of(&pods, "clsact");
    let alive: Value = pods
        .iter()
        .map(|pod| json!({"containerID": pod.name(), "ifname": "eth0"}))
        .collect();
    let running = start_each("ADD", &pods, &configs);
    // Of another network, whose collector shares the limiters.
    for _ in 0..4 {
        gc("other", json!([]));
        gc("net", alive.clone());
    }
    assert_succeed(running);
    for (pod, config) in pods.iter().zip(&configs) {
        check(pod, config);
    }
    let held: Vec<Held> = everything(&[]).into_values().collect();
    let limited = held.iter().filter(|link| link.tbf.is_some()).count();
    assert_eq!(limited, pods.len() + pods.len() / 2);
}
