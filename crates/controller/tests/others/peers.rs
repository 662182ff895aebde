//! Who is a peer, as it is published.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::world::{HOME, World};

#[test]
fn a_set_is_published_and_follows_its_pods() {
    let world = World::new();
    world.create_pod("a", "web", "node1", "10.0.0.1");
    world.create_policy("p", "web", "db");
    world.create_policy("q", "other", "db");
    world.create_pod("b", "db", "node1", "10.0.0.2");
    let _replica = world.replica("one");
    // One set, however many name it.
    world.wait_for_peers(&[&["10.0.0.2"]]);
    world.create_pod("c", "db", "node2", "10.0.0.3");
    world.wait_for_peers(&[&["10.0.0.2", "10.0.0.3"]]);
    let labels = json!({"metadata": {"labels": {"app": "web"}}});
    world.merge(("v1", "Pod", &world.namespace), "b", &labels);
    world.wait_for_peers(&[&["10.0.0.3"]]);
    world.create_policy("r", "db", "web");
    world.wait_for_peers(&[&["10.0.0.1", "10.0.0.2"], &["10.0.0.3"]]);
    for policy in ["p", "q", "r"] {
        world.delete(world.policies(), policy);
    }
    world.wait_for_peers(&[]);
}

/// A rule waits for it, whatever else is being collected, and though its pod is in the set before.
#[test]
fn a_set_that_none_named_before_is_published_at_once() {
    const ROUNDS: u32 = 8;
    let world = World::new();
    world.create_pod("b", "db", "node1", "10.0.0.2");
    world.create_policy("p", "web", "db");
    let labels: serde_json::Map<_, _> = (0..ROUNDS)
        .map(|round| (format!("round-{round}"), json!("yes")))
        .collect();
    let labels = json!({"metadata": {"labels": labels}});
    world.merge(("v1", "Pod", &world.namespace), "b", &labels);
    let _replica = world.replica("one");
    world.wait_for_peers(&[&["10.0.0.2"]]);
    let heads = || {
        let slices = world.slices().into_iter();
        slices
            .map(|slice| slice.metadata.uid.unwrap())
            .collect::<std::collections::BTreeSet<_>>()
    };
    let mut took = Vec::new();
    for round in 0..ROUNDS {
        let before = heads();
        world.create_pod(
            &format!("c{round}"),
            "other",
            "node1",
            &format!("10.0.1.{round}"),
        );
        let label = json!({"matchLabels": {format!("round-{round}"): "yes"}});
        let egress = json!([{"dscp": 10, "classifier": {"to": [{"podSelector": label}]}}]);
        let began = Instant::now();
        world.merge(world.policies(), "p", &json!({"spec": {"egress": egress}}));
        world.eventually("it is not published", || !heads().is_subset(&before));
        took.push(began.elapsed());
    }
    took.sort();
    // What is collected is written each 0.6 s.
    assert!(
        took[took.len() / 2] < Duration::from_millis(500),
        "{took:?}"
    );
    world.wait_for_peers(&[&["10.0.0.2"]]);
}

/// Whoever may write in one namespace must not decide who is a peer in another.
#[test]
fn a_set_of_several_namespaces_is_published_in_the_controllers() {
    let world = World::new();
    world.create_pod("a", "web", "node1", "10.0.0.1");
    let (api_version, kind, namespace) = world.policies();
    let name = json!({"kubernetes.io/metadata.name": world.namespace});
    world.create(
        api_version,
        kind,
        namespace,
        json!({
            "metadata": {"name": "p"},
            "spec": {"priority": 1, "podSelector": {}, "egress": [{"dscp": 1, "classifier": {
                "to": [{"namespaceSelector": {"matchLabels": name}}]
            }}]}
        }),
    );
    let _replica = world.replica("one");
    world.wait_for_peers(&[&["10.0.0.1"]]);
    let slices = world.slices();
    assert_eq!(slices[0].metadata.namespace.as_deref(), Some(HOME));
}

#[test]
fn what_others_write_is_put_right() {
    let world = World::new();
    world.create_pod("b", "db", "node1", "10.0.0.2");
    world.create_policy("p", "web", "db");
    let _replica = world.replica("one");
    world.wait_for_peers(&[&["10.0.0.2"]]);
    let name = world.slices()[0].metadata.name.clone().unwrap();
    let slices = (
        "netqos.io/v1alpha1",
        "NetworkQoSPeerSlice",
        world.namespace.as_str(),
    );
    world.merge(slices, &name, &json!({"addresses": ["10.9.9.9"]}));
    world.wait_for_peers(&[&["10.0.0.2"]]);
    world.delete(slices, &name);
    world.wait_for_peers(&[&["10.0.0.2"]]);
    // One of no set at all.
    world.create(
        slices.0,
        slices.1,
        slices.2,
        json!({
            "metadata": {
                "name": "peers-0473ef2dc0d324ab-0",
                "labels": {"netqos.io/peer-set": "0473ef2dc0d324ab"}
            },
            "network": "default", "addresses": ["10.9.9.9"]
        }),
    );
    world.wait_for_peers(&[&["10.0.0.2"]]);
    assert_eq!(world.slices().len(), 1);
}

/// Of a set of several slices, in each of which some pod comes and goes all the time.
#[test]
fn a_large_set_is_written_to_no_more_often_than_a_small_one() {
    let world = World::new();
    world.create_policy("p", "web", "db");
    let address =
        |number: usize| format!("fd00:1111:2222:3333:4444:5555:6666:{:x}", 0x1000 + number);
    let pods = 150;
    for number in 0..pods {
        world.create_pod(&format!("p{number}"), "db", "node1", &address(number));
    }
    let _replica = world.replica("one");
    let all_are_published = || {
        let slices = world.slices().into_iter();
        let addresses = slices.map(|slice| slice.data["addresses"].as_array().map_or(0, Vec::len));
        addresses.sum::<usize>() == pods
    };
    world.eventually("not all are published", all_are_published);
    let slices = world.slices().len();
    assert!((4..=6).contains(&slices), "{slices}");

    let before = world.slice_updates("one");
    let began = Instant::now();
    let labels = |app: &str| json!({"metadata": {"labels": {"app": app}}});
    for turn in 0.. {
        let app = if turn % 2 == 0 { "none" } else { "db" };
        for number in (0..pods).step_by(10) {
            let pod = ("v1", "Pod", &*world.namespace);
            world.merge(pod, &format!("p{number}"), &labels(app));
        }
        if app == "db" && began.elapsed() > Duration::from_secs(6) {
            break;
        }
    }
    world.eventually("not all are published again", all_are_published);
    let (time, writes) = (began.elapsed(), world.slice_updates("one") - before);
    // All of them at once in the beginning.
    let most = (2.0 * time.as_secs_f64()) as usize + slices;
    assert!(writes >= slices && writes <= most, "{writes} in {time:?}");
}

/// As it is where the only policy that names it is replaced by another one of its name.
#[test]
fn a_large_set_that_was_deleted_is_published_again_at_once() {
    let world = World::new();
    world.create_policy("p", "web", "db");
    for number in 0..200 {
        let address = format!("fd00:1111:2222:3333:4444:5555:6666:{:x}", 0x1000 + number);
        world.create_pod(&format!("p{number}"), "db", "node1", &address);
    }
    let _replica = world.replica("one");
    let count = || {
        let slices = world.slices().into_iter();
        let addresses = slices.map(|slice| slice.data["addresses"].as_array().map_or(0, Vec::len));
        addresses.sum::<usize>()
    };
    world.eventually("not all are published", || count() == 200);
    assert!(world.slices().len() >= 6, "{}", world.slices().len());
    world.delete(world.policies(), "p");
    world.eventually("it is not deleted", || world.slices().is_empty());
    let began = Instant::now();
    world.create_policy("p", "web", "db");
    world.eventually("it is not published again", || count() == 200);
    let took = began.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}");
}
