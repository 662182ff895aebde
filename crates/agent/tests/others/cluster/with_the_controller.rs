//! The agent beside `netqos-controller` itself.

use std::time::{Duration, Instant};

use netqos_apiserver::Request;
use serde_json::{Value, json};

use super::controller::apps;
use super::controller_process::{CONTROLLER, Process, begin};
use super::stage;
use super::world::{AGENT, World};

/// The condition Ready of a policy: status and message.
fn ready(world: &World, name: &str) -> Option<(String, String)> {
    let policies = world.list("k8s.ovn.org/v1alpha1", "NetworkQoS");
    let policy = policies
        .into_iter()
        .find(|it| it["metadata"]["name"] == name)?;
    let conditions = policy["status"]["conditions"].as_array()?.clone();
    let ready = conditions.into_iter().find(|it| it["type"] == "Ready")?;
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    Some((text(&ready["status"]), text(&ready["message"])))
}

#[test]
fn a_peer_is_marked_to_and_the_status_says_so_and_stays_true() {
    let Some((mut world, program)) = begin() else {
        return;
    };
    let controller = Process::start(&program);
    world.mark_to("p", 1, 10, &apps(&["b"]));
    world.start_agent();
    let flow = world.flow();
    flow.wait_for(10);
    let is_ready = |world: &World, status: &str| {
        let end = Instant::now() + Duration::from_secs(30);
        while ready(world, "p").is_none_or(|(is, _)| is != status) {
            assert!(Instant::now() < end, "{:?}", ready(world, "p"));
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    is_ready(&world, "True");
    assert_eq!(ready(&world, "p").unwrap().1, "in force on 1 of 1 node");

    // A peer that is none any more, and is one again.
    let label = |app: &str| json!({"metadata": {"labels": {"app": app}}});
    world.patch("v1", "Pod", "b", &label("other"));
    flow.wait_for_after(10, 0);
    world.patch("v1", "Pod", "b", &label("b"));
    flow.wait_for_after(0, 10);

    // Killed, it takes nothing with it; and what it has missed is made up for by the next.
    controller.kill();
    world.mark_to("p", 1, 20, &apps(&["b"]));
    flow.wait_for_after(10, 20);
    world.mark_to("p", 1, 30, &apps(&["b", "c"]));
    let waits = || {
        let problems = world.problems();
        problems.iter().any(|(reason, _)| reason == "PeersUnknown")
    };
    assert!(stage::eventually(waits));
    // It waits for the end of the dead one's lease; meanwhile every datagram is as it was.
    let _next = Process::start(&program);
    let end = Instant::now() + Duration::from_secs(15);
    while !world.problems().is_empty() {
        assert!(Instant::now() < end, "{:?}", world.problems());
        std::thread::sleep(Duration::from_millis(50));
    }
    flow.wait_for_after(20, 30);
    is_ready(&world, "True");
    let seen = flow.end_after(500);
    stage::assert_no_loss(&seen);
}

/// Pods that a policy is for, whom its rules go to, both, and neither, one after the other, so that
/// nothing but counts is written for two of them together.
#[test]
fn a_pod_that_starts_costs_less_than_one_write_and_no_read() {
    const PODS: usize = 8;
    let Some((mut world, program)) = begin() else {
        return;
    };
    // What is asked beside watches, which go on, the Lease, and what does not exist.
    let asked = |requests: Vec<Request>| {
        let counts = |it: &Request| {
            [AGENT, CONTROLLER].contains(&it.client.as_str())
                && it.resource != "leases"
                && it.status != 404
                && it.verb != "watch"
        };
        let asked = requests.into_iter().filter(counts);
        let asked = asked.map(|it| {
            let what = format!("{} {} {}", it.client, it.verb, it.qualified_resource());
            (it.is_write(), what)
        });
        asked.collect::<Vec<_>>()
    };
    let _controller = Process::start(&program);
    for (pod, app) in [(&world.a, "a"), (&world.b, "b")] {
        let label = json!({"metadata": {"labels": {"app": app}}});
        world.patch("v1", "Pod", pod.name(), &label);
    }
    let both = world.node.pod("both").unwrap();
    world.start_pod(&both, "both");
    let among = |apps: [&str; 2]| json!([{"key": "app", "operator": "In", "values": apps}]);
    let policy = json!({
        "apiVersion": "k8s.ovn.org/v1alpha1", "kind": "NetworkQoS",
        "metadata": {"name": "p", "namespace": world.namespace},
        "spec": {
            "priority": 1,
            "podSelector": {"matchExpressions": among(["a", "both"])},
            "egress": [{"dscp": 10, "classifier": {"to": [
                {"podSelector": {"matchExpressions": among(["b", "both"])}}
            ]}}]
        }
    });
    world.apply("k8s.ovn.org/v1alpha1", "NetworkQoS", &policy);
    world.start_agent();
    let selected = |world: &World| {
        let policy = world.list("k8s.ovn.org/v1alpha1", "NetworkQoS").remove(0);
        policy["status"]["selectedPods"].clone()
    };
    let is_ready = |world: &World| ready(world, "p").is_some_and(|(is, _)| is == "True");
    assert!(stage::eventually(
        || is_ready(&world) && selected(&world) == 2
    ));
    // What follows is written: the events, and the report of what is in force.
    std::thread::sleep(Duration::from_secs(8));
    let before = world.front.requests().len();

    let pods: Vec<_> = (0..PODS)
        .map(|number| {
            let pod = world.node.pod(&format!("late{number}")).unwrap();
            world.start_pod(&pod, ["both", "a", "b", "neither"][number % 4]);
            std::thread::sleep(Duration::from_secs(2));
            pod
        })
        .collect();
    let end = Instant::now() + Duration::from_secs(90);
    while selected(&world) != 2 + PODS / 2 {
        assert!(Instant::now() < end, "{}", selected(&world));
        std::thread::sleep(Duration::from_millis(500));
    }
    assert!(is_ready(&world));
    let since = world.front.requests().split_off(before);
    let (writes, reads): (Vec<_>, Vec<_>) = { asked(since).into_iter() }.partition(|it| it.0);
    println!("{writes:?}");
    assert_eq!(reads, []);
    assert!(writes.len() <= PODS, "{writes:?}");
    drop(pods);
}

/// The queue is emptied at once, and the report to the API server is written at most every five seconds.
#[test]
fn stalled_queue_is_an_event_of_the_pod() {
    let Some((mut world, program)) = begin() else {
        return;
    };
    let _controller = Process::start(&program);
    let pod = world.node.pod("limited").unwrap();
    let limits = json!({
        "kubernetes.io/ingress-bandwidth": "10M", "kubernetes.io/egress-bandwidth": "10M"
    });
    world.create_pod(&pod, limits);
    world.start_agent();
    let is_limited = || stage::pod_status("limited").is_some_and(|it| it.limits.len() == 2);
    assert!(stage::eventually(is_limited), "{}", stage::log());
    stage::stall_queue(&pod, &world.b);
    let is_event = || {
        let events = world.list("events.k8s.io/v1", "Event");
        events.iter().any(|event| {
            event["reason"] == "QueueStalled"
                && event["type"] == "Warning"
                && event["regarding"]["name"] == "limited"
        })
    };
    let end = Instant::now() + Duration::from_secs(30);
    while !is_event() {
        assert!(Instant::now() < end, "{}", stage::log());
        std::thread::sleep(Duration::from_millis(100));
    }
}
