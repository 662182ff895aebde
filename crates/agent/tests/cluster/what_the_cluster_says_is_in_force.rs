use std::time::{Duration, Instant};

use serde_json::json;

use crate::controller::apps;
use crate::stage::{self, Flow};
use crate::world::World;

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

/// What is to be reached, of 99 in a hundred changes.
const LONGEST: Duration = Duration::from_millis(100);
/// A machine that is busy with something else may spoil it, but not each time.
const TRIES: usize = 5;
const CHANGES: u8 = 120;

/// From before the request to the first packet.
#[test]
fn within_a_tenth_of_a_second() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.create_policy("p", 1);
    world.start_agent();
    let flow = Flow::begin(&world.a, &world.b, Duration::from_micros(300));
    flow.wait_for(1);
    ninety_nine_in_a_hundred("a NetworkQoS", |round| {
        let dscp = 2 + round % 2;
        let began = Instant::now();
        world.mark("p", dscp);
        flow.wait_for(dscp).at.saturating_duration_since(began)
    });
    drop(flow.end());
}

/// The same where a controller publishes peers, as it is installed.
#[test]
fn also_where_peers_are_published_within_a_tenth_of_a_second() {
    let Some((mut world, mut controller)) = World::sliced() else {
        return;
    };
    world.mark_to("p", 1, 1, &apps(&["b"]));
    controller.publish(&world);
    world.start_agent();
    let flow = Flow::begin(&world.a, &world.b, Duration::from_micros(300));
    flow.wait_for(1);
    ninety_nine_in_a_hundred("a NetworkQoS with peers", |round| {
        let dscp = 2 + round % 2;
        let began = Instant::now();
        world.mark_to("p", 1, dscp, &apps(&["b"]));
        flow.wait_for(dscp).at.saturating_duration_since(began)
    });
    drop(flow.end());
}

/// From before the request until the kernel shows the rate; a look at that is in it.
#[test]
fn annotations_too_within_a_tenth_of_a_second() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.start_agent();
    let shows = |rate: &str| {
        let shown = { &world.a }.run(&world.node, "tc", &["qdisc", "show", "dev", "eth0"]);
        shown.unwrap().contains(&format!("rate {rate}bit"))
    };
    ninety_nine_in_a_hundred("an annotation", |round| {
        let rate = ["10M", "20M"][usize::from(round % 2)];
        let annotation = json!({"kubernetes.io/egress-bandwidth": rate});
        let patch = json!({"metadata": {"annotations": annotation}});
        let began = Instant::now();
        world.patch("v1", "Pod", "a", &patch);
        assert!(stage::eventually(|| shows(rate)));
        began.elapsed()
    });
}

fn ninety_nine_in_a_hundred(what: &str, mut change: impl FnMut(u8) -> Duration) {
    let mut tries = Vec::new();
    for _ in 0..TRIES {
        let mut took: Vec<Duration> = (0..CHANGES).map(&mut change).collect();
        took.sort();
        let at = |percent: usize| took[(took.len() * percent).div_ceil(100) - 1];
        let (median, most) = (at(50), at(99));
        println!(
            "{what}: p50 {median:.1?}, p99 {most:.1?}, slowest {:.1?}",
            at(100)
        );
        tries.push(most);
        if most <= LONGEST {
            return;
        }
    }
    panic!("{what}: p99 of each try {tries:?}");
}
