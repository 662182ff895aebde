//! Sixteen pods at a time, as when a node starts.

use netqos_testkit::{Pod, Running};
use serde_json::{Value, json};

use super::calls::{call, check, del, gc, limited, node, start};
use super::kernel::{Held, everything, limiters, links_of_kind};

const PODS: usize = 16;

/// Half of them by ifb; every one a limit of its own.
fn config_of(number: usize, pod: &Pod, hook: &str) -> Value {
    let rate = 1_000_000 * (number as u64 + 1);
    let egress = if number.is_multiple_of(2) {
        "pod"
    } else {
        "ifb"
    };
    limited(pod, rate, 2 * rate, json!({"hook": hook, "egress": egress}))
}

fn all_at_once(command: &str, pods: &[Pod], configs: &[Value]) {
    let running: Vec<Running> = pods
        .iter()
        .zip(configs)
        .map(|(pod, config)| call(command, pod, config).start().unwrap())
        .collect();
    for running in running {
        let outcome = running.finish().unwrap();
        assert_eq!(outcome.code, Some(0), "{command}: {outcome:?}");
    }
}

#[test]
fn the_first_of_a_boot_included() {
    let Some(node) = node() else { return };
    let pods: Vec<Pod> = (0..PODS)
        .map(|number| node.pod(&format!("p{number}")).unwrap())
        .collect();
    let all: Vec<&Pod> = pods.iter().collect();
    let bare = everything(&all);
    for hook in super::calls::hooks() {
        let configs: Vec<Value> = pods
            .iter()
            .enumerate()
            .map(|(number, pod)| config_of(number, pod, hook))
            .collect();
        all_at_once("ADD", &pods, &configs);
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
        all_at_once("DEL", &pods, &configs);
        assert_eq!(everything(&all), bare, "{hook}");
        assert_eq!(limiters(), []);
        assert_eq!(node.files("/run/netqos"), [""; 0]);
        assert_eq!(node.files("/sys/fs/bpf/netqos/v1/links"), [""; 0]);
    }
}

/// A runtime that gave up waiting calls again while the first call is still at work.
#[test]
fn of_one_pod() {
    let Some((_node, pod)) = start() else { return };
    let bare = everything(&[&pod]);
    let config = limited(&pod, 10_000_000, 20_000_000, json!({"egress": "ifb"}));
    for _ in 0..4 {
        let commands = ["ADD", "DEL", "ADD", "ADD", "DEL", "ADD"];
        let running: Vec<Running> = commands
            .iter()
            .map(|command| call(command, &pod, &config).start().unwrap())
            .collect();
        for running in running {
            let outcome = running.finish().unwrap();
            assert_eq!(outcome.code, Some(0), "{outcome:?}");
        }
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
    let mut config = limited(&pod, 10_000_000, 20_000_000, json!({"egress": "ifb"}));
    config["prevResult"]["interfaces"] = interfaces.into();
    let bare = everything(&[&pod]);
    let all_at_once = |command: &str| {
        let calls = names.map(|name| call(command, &pod, &config).variable("CNI_IFNAME", name));
        let running = calls.map(|call| call.start().unwrap());
        for running in running {
            let outcome = running.finish().unwrap();
            assert_eq!(outcome.code, Some(0), "{command}: {outcome:?}");
        }
    };
    for _ in 0..8 {
        all_at_once("ADD");
        all_at_once("CHECK");
        assert_eq!(links_of_kind("ifb").len(), names.len());
        all_at_once("DEL");
        assert_eq!(everything(&[&pod]), bare);
        assert_eq!(limiters(), []);
        assert_eq!(node.files("/run/netqos"), [""; 0]);
    }
}

/// While pods come, what is stale goes; what comes stays.
#[test]
fn while_garbage_is_collected() {
    let Some(node) = node() else { return };
    let pods: Vec<Pod> = (0..PODS / 2)
        .map(|number| node.pod(&format!("p{number}")).unwrap())
        .collect();
    let configs: Vec<Value> = pods
        .iter()
        .enumerate()
        .map(|(number, pod)| config_of(number, pod, "clsact"))
        .collect();
    let alive: Value = pods
        .iter()
        .map(|pod| json!({"containerID": pod.name(), "ifname": "eth0"}))
        .collect();
    let running: Vec<Running> = pods
        .iter()
        .zip(&configs)
        .map(|(pod, config)| call("ADD", pod, config).start().unwrap())
        .collect();
    // Of another network, whose collector shares the limiters.
    for _ in 0..4 {
        gc("other", json!([]));
        gc("net", alive.clone());
    }
    for running in running {
        assert_eq!(running.finish().unwrap().code, Some(0));
    }
    for (pod, config) in pods.iter().zip(&configs) {
        check(pod, config);
    }
    let held: Vec<Held> = everything(&[]).into_values().collect();
    let limited = held.iter().filter(|link| link.tbf.is_some()).count();
    assert_eq!(limited, pods.len() + pods.len() / 2);
}
