use std::fs;
use std::thread::sleep;
use std::time::Duration;

use netqos_testkit::Pod;
use serde_json::json;

use super::stage;
use super::world::World;

/// Pods go at every moment after they have come: before the agent has seen them, while it makes
/// what is theirs, and after that; their objects first, or what they have on the node.
#[test]
fn and_no_error_stays() {
    let Some(mut world) = World::new() else {
        return;
    };
    // Marks and a rate for all.
    let rules = json!([{"dscp": 10, "bandwidth": {"rate": 20_000}}]);
    let namespace = world.namespace.clone();
    let policy = json!({
        "metadata": {"name": "p", "namespace": namespace},
        "spec": {"priority": 1, "podSelector": {}, "egress": rules}
    });
    world.create("k8s.ovn.org/v1alpha1", "NetworkQoS", &namespace, policy);
    world.start_agent();
    assert!(stage::eventually(|| stage::status().pods.len() == 2));
    // What the first of all limits loads stays.
    let first = come(&world, "first");
    assert!(stage::eventually(|| is_held("first")));
    go(&world, first, true);
    settle();
    let before = world.node.state(&[&world.a, &world.b]).unwrap();
    for round in 0..24_u64 {
        let pod = come(&world, &format!("c{round}"));
        sleep(Duration::from_millis(round / 2 * 3));
        go(&world, pod, round % 2 == 0);
    }
    settle();
    assert_eq!(world.problems(), []);
    assert_eq!(stage::status().pods.len(), 2);
    let after = world.node.state(&[&world.a, &world.b]).unwrap();
    after.assert_is(&before, "the pods are gone");
}

/// A pod that is to be held to a limit of its own, besides.
fn come(world: &World, name: &str) -> Pod {
    let pod = world.node.pod(name).unwrap();
    world.create_pod(&pod, json!({"kubernetes.io/egress-bandwidth": "10M"}));
    pod
}

fn go(world: &World, pod: Pod, object_first: bool) {
    let name = pod.name().to_owned();
    if object_first {
        world.delete("v1", "Pod", &name);
    }
    let remembered = stage::remembered(&pod);
    world.node.remove_pod(pod).unwrap();
    fs::remove_file(remembered).unwrap();
    if !object_first {
        world.delete("v1", "Pod", &name);
    }
}

fn is_held(name: &str) -> bool {
    let limits = stage::pod_status(name).map(|pod| pod.limits);
    limits.is_some_and(|limits| limits.iter().any(|limit| limit.in_force))
}

/// Until nothing is wrong, and what is not urgent is done.
fn settle() {
    assert!(stage::eventually(|| stage::status().problems.is_empty()));
    sleep(Duration::from_millis(2500));
}
