use serde_json::json;

use super::controller::apps;
use super::stage;
use super::world::World;

#[test]
fn from_its_start_and_with_each_change() {
    let Some(mut world) = World::new() else {
        return;
    };
    let flow = world.marked(10);
    world.mark("p", 20);
    flow.wait_for(20);
    world.create_policy("a-later-one", 30);
    // Of equal priority the smaller name wins.
    flow.wait_for(30);
    world.delete("k8s.ovn.org/v1alpha1", "NetworkQoS", "a-later-one");
    flow.wait_for(20);
    world.delete("k8s.ovn.org/v1alpha1", "NetworkQoS", "p");
    flow.wait_for(0);
    drop(flow.end());
    assert_eq!(world.problems(), []);
}

/// A pod that is a peer no longer, and one again.
#[test]
fn pod_that_is_no_peer_for_a_while_is_not_marked_meanwhile() {
    let Some((mut world, mut controller)) = World::with_controller() else {
        return;
    };
    world.mark_to("p", 1, 10, &apps(&["b"]));
    controller.publish(&world);
    let flow = world.started_where(10, &[]);
    for (app, before, now) in [("other", 10, 0), ("b", 0, 10)] {
        let label = json!({"metadata": {"labels": {"app": app}}});
        world.patch("v1", "Pod", "b", &label);
        controller.publish(&world);
        flow.wait_for_after(before, now);
    }
}

/// An annotation that is changed on a pod that runs, and a pod that comes while the agent runs.
#[test]
fn annotations_and_pods_too() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.start_agent();
    let limit = |rate: Option<&str>| {
        let annotation = json!({"kubernetes.io/egress-bandwidth": rate});
        let patch = json!({"metadata": {"annotations": annotation}});
        world.patch("v1", "Pod", "a", &patch);
    };
    let rate_of = |name: &str| {
        let limits = stage::pod_status(name)?.limits;
        let held = limits.first().filter(|limit| limit.in_force)?;
        Some(held.rate)
    };
    for (annotation, rate) in [(Some("10M"), 10_000_000), (Some("20M"), 20_000_000)] {
        limit(annotation);
        assert!(stage::eventually(|| rate_of("a") == Some(rate)));
    }
    limit(None);
    assert!(stage::eventually(|| stage::pod_status("a").is_none()));

    let late = world.node.pod("late").unwrap();
    world.create_pod(&late, json!({"kubernetes.io/ingress-bandwidth": "5M"}));
    assert!(stage::eventually(|| rate_of("late") == Some(5_000_000)));
    world.delete("v1", "Pod", "late");
    assert!(stage::eventually(|| stage::pod_status("late").is_none()));
    assert_eq!(world.problems(), []);
}
