#![allow(
    clippy::disallowed_methods,
    reason = "when a request came is recorded by the date"
)]
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use netqos_core::{NodeReport, ObjectName};
use netqos_faults::{Fault, Request};
use netqos_k8s::{NetworkQoSNodeReport, convert};
use serde_json::json;

use super::controller::apps;
use super::stage;
use super::world::{AGENT, World};

const REPORTS: &str = "networkqosnodereports";

/// What the node's report says, once there is one.
fn report(world: &World) -> Option<NodeReport> {
    let report = world
        .list("netqos.io/v1alpha1", "NetworkQoSNodeReport")
        .pop()?;
    let report: NetworkQoSNodeReport = serde_json::from_value(report).unwrap();
    Some(convert::node_report(&report).unwrap())
}

/// The generation of a policy that is told to be in force.
fn generation(world: &World, name: &str) -> Option<i64> {
    let policies = report(world)?.policies;
    let version = policies.get(&ObjectName::new("games", name));
    version.map(|version| version.generation)
}

fn reasons(world: &World) -> Vec<String> {
    let problems = report(world).map(|report| report.problems);
    let problems = problems.into_iter().flatten();
    problems.map(|problem| problem.reason).collect()
}

fn writes(world: &World) -> Vec<Request> {
    let requests = world.asked().into_iter();
    requests.filter(Request::is_write).collect()
}

/// Of each policy the generation, what waits or fails with its reason, and nothing that is as it was.
#[test]
fn once_it_is_and_when_it_is_something_else() {
    let Some((mut world, mut controller)) = World::with_controller() else {
        return;
    };
    world.mark_to("p", 1, 10, &apps(&["b"]));
    controller.publish(&world);
    let pod = ["--pod", "agent", "--pod-namespace", "netqos-system"];
    world.flags.extend(pod);
    world.start_agent();
    assert!(stage::eventually(|| generation(&world, "p") == Some(1)));
    let said = report(&world).unwrap();
    assert_eq!(said.pod.as_deref(), Some("netqos-system/agent"));
    assert_eq!((&*said.node, &said.problems), ("node1", &vec![]));

    // In force is what was before, and it is told why.
    world.mark_to("p", 1, 20, &apps(&["b", "c"]));
    assert!(stage::eventually(|| reasons(&world) == ["PeersUnknown"]));
    assert_eq!(generation(&world, "p"), Some(1));
    controller.publish(&world);
    assert!(stage::eventually(|| generation(&world, "p") == Some(2)));
    assert!(stage::eventually(|| reasons(&world).is_empty()));

    // A change that concerns no peers.
    world.mark_to("p", 1, 30, &apps(&["b", "c"]));
    assert!(stage::eventually(|| generation(&world, "p") == Some(3)));
    let before = writes(&world);
    // Pods that come change nothing of it, whether it is for them, goes to them, or neither.
    let late = world.node.pod("late").unwrap();
    world.create_pod(&late, json!({"kubernetes.io/ingress-bandwidth": "5M"}));
    assert!(stage::eventually(|| stage::pod_status("late").is_some()));
    let _pods = [("selected", "a"), ("peer", "b")].map(|(name, app)| {
        let pod = world.node.pod(name).unwrap();
        world.start_pod(&pod, app);
        controller.publish(&world);
        pod
    });
    let has_rules = || stage::pod_status("selected").is_some_and(|pod| !pod.rules.is_empty());
    assert!(stage::eventually(has_rules));
    thread::sleep(Duration::from_secs(6));
    let after = writes(&world);
    assert_eq!(after.len(), before.len(), "{after:?}");
    for write in &after {
        assert_eq!((write.verb, write.resource.as_str()), ("patch", REPORTS));
        assert_eq!(write.name.as_deref(), Some("node1"));
    }
    world.delete("k8s.ovn.org/v1alpha1", "NetworkQoS", "p");
    assert!(stage::eventually(|| report(&world)
        .unwrap()
        .policies
        .is_empty()));
}

/// Its queue is emptied at once, and the report is written at most every five seconds.
#[test]
fn stalled_queue_is_reported_with_its_pod() {
    let Some(mut world) = World::new() else {
        return;
    };
    let pod = world.node.pod("limited").unwrap();
    let limits = json!({
        "kubernetes.io/ingress-bandwidth": "10M", "kubernetes.io/egress-bandwidth": "10M"
    });
    world.create_pod(&pod, limits);
    world.start_agent();
    let is_limited = || stage::pod_status("limited").is_some_and(|it| it.limits.len() == 2);
    assert!(stage::eventually(is_limited), "{}", stage::log());
    stage::stall_queue(&pod, &world.b);
    let is_told = || {
        let problems = report(&world).map(|report| report.problems);
        let mut problems = problems.into_iter().flatten();
        problems.any(|it| it.reason == "QueueStalled" && &*it.object.name == "limited")
    };
    assert!(stage::eventually(is_told), "{}", stage::log());
}

/// One write in five seconds at most, and the server's troubles stop nothing.
#[test]
fn without_haste_and_without_delaying_anything() {
    let Some(mut world) = World::new() else {
        return;
    };
    let flow = world.marked(10);
    assert!(stage::eventually(|| generation(&world, "p") == Some(1)));
    let fault = Fault::status(500).on("*", REPORTS);
    world.front.inject(fault.of(AGENT));
    let began = (Instant::now(), SystemTime::now());
    let mut dscp = 10;
    while began.0.elapsed() < Duration::from_secs(12) {
        let next = if dscp == 11 { 12 } else { 11 };
        let changed = Instant::now();
        world.mark("p", next);
        flow.wait_for_after(dscp, next);
        assert!(
            changed.elapsed() < Duration::from_secs(5),
            "{:?}",
            changed.elapsed()
        );
        dscp = next;
        thread::sleep(Duration::from_millis(200));
    }
    let failed = writes(&world).into_iter().filter(|it| it.at > began.1);
    let failed = failed.map(|it| it.status).collect::<Vec<_>>();
    assert!(failed.iter().all(|status| *status == 500), "{failed:?}");
    assert!((1..12).contains(&failed.len()), "{failed:?}");
    world.front.heal();
    let healed = SystemTime::now();
    // It is how things are by now that is told.
    let last =
        world.list("k8s.ovn.org/v1alpha1", "NetworkQoS")[0]["metadata"]["generation"].clone();
    assert!(stage::eventually(
        || generation(&world, "p") == last.as_i64()
    ));
    for _ in 0..40 {
        let next = if dscp == 11 { 12 } else { 11 };
        world.mark("p", next);
        flow.wait_for_after(dscp, next);
        dscp = next;
        thread::sleep(Duration::from_millis(250));
    }
    drop(flow.end());
    let written = writes(&world).into_iter().filter(|it| it.at > healed);
    let mut written: Vec<SystemTime> = written.map(|it| it.at).collect();
    written.sort();
    let took = healed.elapsed().unwrap();
    println!("{} writes in {took:?} of changes", written.len());
    let most = took.as_secs() as usize / 5 + 3;
    assert!((2..most).contains(&written.len()), "{written:?}");
    let apart = written
        .windows(2)
        .map(|two| two[1].duration_since(two[0]).unwrap());
    let least = apart.min().unwrap();
    assert!(least >= Duration::from_millis(4_500), "{least:?}");
}

/// By uid: one that is deleted and made anew is another one, though it has the name and the generation
/// of the one before.
#[test]
fn of_which_policy_of_a_name_it_is_told_and_of_other_namespaces_none() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.create(
        "v1",
        "Namespace",
        "",
        json!({"metadata": {"name": "empty"}}),
    );
    let elsewhere = json!({
        "metadata": {"name": "q", "namespace": "empty"},
        "spec": {"priority": 1, "egress": [{"dscp": 1}]}
    });
    world.create("k8s.ovn.org/v1alpha1", "NetworkQoS", "empty", elsewhere);
    world.create_policy("p", 10);
    world.start_agent();
    let policies = |world: &World| world.list("k8s.ovn.org/v1alpha1", "NetworkQoS");
    let uid = |world: &World| {
        let p = policies(world).into_iter();
        let mut p = p.filter(|it| it["metadata"]["name"] == "p");
        p.next().unwrap()["metadata"]["uid"].clone()
    };
    let told = |world: &World| {
        let policies = report(world).map(|it| it.policies).unwrap_or_default();
        let told = policies.into_iter();
        let told =
            told.map(|(name, it)| (name.to_string(), it.uid.unwrap_or_default(), it.generation));
        told.collect::<Vec<_>>()
    };
    let is_told = |world: &World| {
        let first = uid(world);
        let expected = ("games/p".to_owned(), first.as_str().unwrap().into(), 1);
        stage::eventually(|| told(world) == [expected.clone()])
    };
    assert!(is_told(&world), "{:?}", told(&world));
    let first = uid(&world);
    world.delete("k8s.ovn.org/v1alpha1", "NetworkQoS", "p");
    world.create_policy("p", 10);
    assert_ne!(uid(&world), first);
    assert!(is_told(&world), "{:?}", told(&world));
}

#[test]
fn again_when_somebody_has_deleted_it() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.create_policy("p", 10);
    world.start_agent_where(&[("NETQOS_REPORT_REFRESH", "2")]);
    assert!(stage::eventually(|| generation(&world, "p") == Some(1)));
    world.delete_in("", "netqos.io/v1alpha1", "NetworkQoSNodeReport", "node1");
    assert!(stage::eventually(|| generation(&world, "p") == Some(1)));
    // What is there as it was is not touched.
    let version = || {
        let report = world
            .list("netqos.io/v1alpha1", "NetworkQoSNodeReport")
            .pop();
        report.unwrap()["metadata"]["resourceVersion"].clone()
    };
    let before = version();
    thread::sleep(Duration::from_secs(5));
    assert_eq!(version(), before);
}

/// Nothing that is not so, either.
#[test]
fn where_no_rule_can_be_no_policy_is_in_force() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.create_policy("p", 10);
    // Where no filesystem of pins can be mounted.
    world.spawn_agent_with("node1", &[("NETQOS_BPFFS", "/proc/bpf")]);
    let says = || reasons(&world).contains(&"KernelFeatureMissing".to_owned());
    assert!(stage::eventually(says), "{:?}", report(&world));
    let said = report(&world).unwrap();
    assert_eq!(said.policies.len(), 0, "{said:?}");
    let lacks = said
        .problems
        .iter()
        .find(|it| it.reason == "KernelFeatureMissing");
    assert_eq!(lacks.unwrap().kind, "Node");
}
