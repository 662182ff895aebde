use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use netqos_datapath::Paths;
use netqos_datapath::rules::remove_all;
use netqos_faults::Fault;
use serde_json::json;

use super::controller::{Controller, apps};
use super::stage::{self, Flow};
use super::world::{AGENT, World, has_written, readiness};

const SLICES: &str = "networkqospeerslices";

/// A cluster in which a rule to `b` is in force, and its flow.
fn begin() -> Option<(World, Controller, Flow)> {
    let (mut world, mut controller) = World::with_controller()?;
    world.mark_to("p", 1, 10, &apps(&["b"]));
    controller.publish(&world);
    world.start_agent();
    let flow = world.flow();
    flow.wait_for(10);
    Some((world, controller, flow))
}

fn tells_of_unknown_peers(world: &World) -> bool {
    let problems = world.problems();
    problems.iter().any(|(reason, _)| reason == "PeersUnknown")
}

/// Every datagram carries the mark of before until it carries the new one, also when others change
/// meanwhile.
#[test]
fn and_what_was_in_force_stays_until_they_are_published() {
    let Some((world, mut controller, flow)) = begin() else {
        return;
    };
    world.mark_to("p", 1, 20, &apps(&["b", "of-nobody"]));
    assert!(stage::eventually(|| tells_of_unknown_peers(&world)));
    let problems = world.problems();
    let (_, message) = &problems[0];
    assert!(message.contains("in force as it was before"), "{message}");

    // What needs nobody, and a pod's annotation, do not wait with it.
    let annotation = json!({"kubernetes.io/egress-bandwidth": "1G"});
    let patch = json!({"metadata": {"annotations": annotation}});
    world.patch("v1", "Pod", "b", &patch);
    let is_limited = || stage::pod_status("b").is_some_and(|pod| !pod.limits.is_empty());
    assert!(stage::eventually(is_limited));
    world.create_policy("another", 30);
    flow.wait_for_after(10, 30);
    world.delete("k8s.ovn.org/v1alpha1", "NetworkQoS", "another");
    flow.wait_for_after(30, 10);

    controller.publish(&world);
    flow.wait_for_after(10, 20);
    assert!(stage::eventually(|| world.problems().is_empty()));
    // One that goes where nobody is has nobody to wait for once that is known.
    world.mark_to("q", 2, 40, &apps(&["nobody"]));
    controller.publish(&world);
    let rules = || stage::pod_status("a").map_or(0, |pod| pod.rules.len());
    assert!(stage::eventually(|| rules() == 2));
    let seen = flow.end_after(100);
    assert!(seen.iter().all(|seen| seen.dscp == 20), "{seen:?}");
}

/// Of two policies one waits, and the other does not.
#[test]
fn and_each_waits_for_its_own() {
    let Some((world, mut controller, flow)) = begin() else {
        return;
    };
    world.mark_to("q", 2, 40, &apps(&["b", "c"]));
    world.mark_to("p", 1, 11, &apps(&["b"]));
    flow.wait_for_after(10, 11);
    // It goes on to change while the other one waits, and goes.
    world.mark_to("p", 1, 12, &apps(&["b"]));
    flow.wait_for_after(11, 12);
    controller.publish(&world);
    flow.wait_for_after(12, 40);
    world.mark_to("p", 1, 13, &apps(&["b", "d"]));
    world.mark_to("q", 2, 41, &apps(&["b", "c"]));
    flow.wait_for_after(40, 41);
    world.delete("k8s.ovn.org/v1alpha1", "NetworkQoS", "q");
    flow.wait_for_after(41, 12);
    controller.publish(&world);
    flow.wait_for_after(12, 13);
    drop(flow.end());
}

/// The API server fails for slices alone, or is slow, while policies change.
#[test]
fn also_where_the_server_does_not_tell_of_slices() {
    let Some((world, mut controller, flow)) = begin() else {
        return;
    };
    let server = &world.front;
    let troubles = [
        Fault::status(500).on("*", SLICES).of(AGENT),
        Fault::status(403).on("*", SLICES).of(AGENT),
        Fault::close().on("*", SLICES).of(AGENT),
    ];
    for (step, trouble) in (0_u8..).zip(troubles) {
        println!("{trouble:?}");
        server.inject(trouble);
        server.break_watches();
        let (before, now) = (10 + step, 11 + step);
        let other = format!("other{step}");
        world.mark_to("p", 1, now, &apps(&["b", &other]));
        controller.publish(&world);
        let is_away = || {
            let problems = world.problems().into_iter();
            let mut away = problems.filter(|(reason, _)| reason == "ApiUnavailable");
            away.any(|(_, message)| message.contains(SLICES))
        };
        assert!(stage::eventually(is_away), "{:?}", world.problems());
        // Of what needs no peers.
        world.create_policy("another", 30);
        flow.wait_for_after(before, 30);
        world.delete("k8s.ovn.org/v1alpha1", "NetworkQoS", "another");
        flow.wait_for_after(30, before);
        server.heal();
        flow.wait_for_after(before, now);
    }
    let slow = Duration::from_secs(1);
    server.inject(Fault::delay(slow).on("*", SLICES).of(AGENT));
    world.mark_to("p", 1, 20, &apps(&["b", "slow"]));
    let began = Instant::now();
    controller.publish(&world);
    flow.wait_for_after(13, 20);
    assert!(began.elapsed() >= slow / 2, "{:?}", began.elapsed());
    server.heal();
    let seen = flow.end_after(100);
    assert!(seen.iter().all(|seen| seen.dscp == 20), "{seen:?}");
    assert!(stage::eventually(|| world.problems().is_empty()));
}

/// A set is known when all of it is there, and not before; whoever takes over writes the rest.
#[test]
fn also_where_the_controller_is_killed_in_the_middle_of_writing() {
    let Some((world, mut controller, flow)) = begin() else {
        return;
    };
    for number in 0..400_u16 {
        let [high, low] = number.to_be_bytes();
        let address = format!("10.77.{high}.{low}");
        let pod = json!({
            "metadata": {
                "name": format!("far{number}"), "namespace": "games", "labels": {"app": "far"}
            },
            "spec": {"nodeName": "node2", "containers": [{"name": "c", "image": "none"}]},
        });
        world.create("v1", "Pod", "games", pod);
        let status = json!({"status": {"podIP": address, "podIPs": [{"ip": address}]}});
        world.patch_status(&format!("far{number}"), &status);
    }
    world.mark_to("p", 1, 20, &apps(&["b", "far"]));
    controller.look(&world);
    let many = controller.left();
    assert!(many > 4, "{many} slices");
    let mut written = 0;
    while !controller.is_at_head() {
        controller.write(&world, 1);
        written += 1;
        if written % 2 == 0 {
            // Another one takes over, and is killed, too.
            controller = Controller::start(&world);
            controller.look(&world);
        }
    }
    assert!(written > 3, "{written}");
    thread::sleep(Duration::from_millis(300));
    controller = Controller::start(&world);
    controller.publish(&world);
    flow.wait_for_after(10, 20);
    let seen = flow.end_after(100);
    assert!(seen.iter().all(|seen| seen.dscp == 20), "{seen:?}");
    // Nothing is lost, and nothing is left of what was tried.
    let mut last = Controller::start(&world);
    last.look(&world);
    assert_eq!(last.left(), 0);
    assert_eq!(world.problems(), []);
}

/// Killed, and started again while a rule waits: also after a reboot, without a server.
#[test]
fn also_over_a_restart_of_the_agent() {
    let Some((mut world, mut controller, flow)) = begin() else {
        return;
    };
    let address = world.b.address();
    let is_written = || {
        has_written("networkqospeerslices", &address) && has_written("networkqoses", "\"dscp\":10")
    };
    assert!(stage::eventually(is_written));
    world.mark_to("p", 1, 20, &apps(&["b", "c"]));
    assert!(stage::eventually(|| tells_of_unknown_peers(&world)));

    // The server tells of what waits, and an agent that knows nothing knows no better than to wait.
    world.start_agent();
    assert!(stage::eventually(|| tells_of_unknown_peers(&world)));
    // It wrote down what is in force, and not what waits.
    thread::sleep(Duration::from_secs(6));
    assert!(is_written());
    let seen = flow.end_after(100);
    assert!(seen.iter().all(|seen| seen.dscp == 10), "{seen:?}");
    stage::assert_no_loss(&seen);

    world.stop_agent();
    remove_all(&Paths::from_variables(|_| None)).unwrap();
    fs::remove_dir_all("/run/netqos").unwrap();
    world.front.go_away().unwrap();
    let flow = world.flow();
    flow.wait_for(0);
    world.spawn_agent();
    flow.wait_for_after(0, 10);
    world.front.come_back().unwrap();
    controller.publish(&world);
    flow.wait_for_after(10, 20);
    drop(flow.end());
}

/// It waits for all of it, says for what, and touches nothing.
#[test]
fn also_by_an_agent_that_starts_and_knows_nothing() {
    let Some((mut world, mut controller, flow)) = begin() else {
        return;
    };
    world.stop_agent();
    let _ = fs::remove_dir_all("/var/lib/netqos");
    world.mark_to("p", 1, 20, &apps(&["b", "c"]));
    world.spawn_agent();
    let waits = "not published yet (NetworkQoS games/p)";
    assert!(
        stage::eventually(|| readiness().contains(waits)),
        "{}",
        readiness()
    );
    // Longer than it waits before it goes by what it remembers.
    let seen = flow.end_after(4_000);
    assert!(seen.iter().all(|seen| seen.dscp == 10), "{:?}", seen.last());
    stage::assert_no_loss(&seen);
    let flow = world.flow();
    controller.publish(&world);
    flow.wait_for_after(10, 20);
    drop(flow.end());
}

/// There is nothing that what waits could lift: what needs no peers, and limits, do not wait for a
/// controller that may never come.
#[test]
fn but_on_a_new_node_nothing_else_waits_with_it() {
    let Some((mut world, mut controller)) = World::with_controller() else {
        return;
    };
    world.mark_to("p", 2, 20, &apps(&["b"]));
    world.mark_to("q", 1, 30, &json!({"ipBlock": {"cidr": "0.0.0.0/0"}}));
    let annotation = json!({"kubernetes.io/egress-bandwidth": "1G"});
    let patch = json!({"metadata": {"annotations": annotation}});
    world.patch("v1", "Pod", "a", &patch);
    world.start_agent();
    let flow = world.flow();
    flow.wait_for(30);
    let is_limited = || stage::pod_status("a").is_some_and(|pod| pod.limits[0].in_force);
    assert!(stage::eventually(is_limited));
    assert!(stage::eventually(|| tells_of_unknown_peers(&world)));
    let problems = world.problems();
    let (_, message) = &problems[0];
    assert!(message.contains("nothing of it is in force"), "{message}");
    let names_it = || {
        let problems = world.problems();
        problems[0]
            .1
            .contains("no Lease netqos-system/netqos-controller is there")
    };
    assert!(stage::eventually(names_it), "{:?}", world.problems());
    // What it knows is written down by then.
    assert!(stage::eventually(|| has_written("networkqoses", "")));
    // Started again it knows no more, and nothing is lifted.
    world.start_agent();
    assert!(stage::eventually(|| tells_of_unknown_peers(&world)));
    let seen = flow.end_after(100);
    assert!(seen.iter().all(|seen| seen.dscp == 30), "{:?}", seen.last());
    let flow = world.flow();
    controller.publish(&world);
    flow.wait_for_after(30, 20);
    drop(flow.end());
}
