//! Who writes.

use std::thread;
use std::time::{Duration, Instant};

use kube::api::DynamicObject;

use crate::world::{HOME, World};

const SIGSTOP: i32 = 19;
const SIGCONT: i32 = 18;
/// What the documents promise.
const REPLACED_WITHIN: Duration = Duration::from_secs(15);

#[test]
fn a_leader_that_is_killed_is_replaced_and_nothing_is_written_again() {
    let world = World::new();
    let one = world.published_by_one();
    let before = world.slices();
    let _two = world.standby("two");
    assert_eq!(world.leader(), "one");

    let killed = Instant::now();
    one.kill();
    world.wait_for_leader("two");
    println!("replaced after {:.1} s", killed.elapsed().as_secs_f64());
    assert!(killed.elapsed() < REPLACED_WITHIN);
    // What is right is not written again, by whoever leads.
    thread::sleep(Duration::from_secs(1));
    let version = |slices: &[DynamicObject]| slices[0].metadata.resource_version.clone();
    assert_eq!(version(&world.slices()), version(&before));
    world.create_pod("c", "db", "node1", "10.0.0.3");
    world.wait_for_peers(&[&["10.0.0.2", "10.0.0.3"]]);
    assert!(killed.elapsed() < REPLACED_WITHIN + Duration::from_secs(2));
    // The same slice.
    let after = world.slices();
    assert_eq!(after.len(), 1);
    assert_eq!(after[0].metadata.uid, before[0].metadata.uid);
    let lease = world.get(
        ("coordination.k8s.io/v1", "Lease", HOME),
        "netqos-controller",
    );
    assert_eq!(lease.unwrap()["spec"]["leaseTransitions"], 1);
}

#[test]
fn a_leader_that_is_told_to_stop_gives_the_lease_back() {
    let world = World::new();
    let one = world.replica("one");
    world.wait_for_leader("one");
    let _two = world.standby("two");
    let told = Instant::now();
    assert_eq!(one.stop(), Some(0));
    world.wait_for_leader("two");
    // It need not wait for the end of the lease, which is ten seconds.
    assert!(
        told.elapsed() < Duration::from_secs(6),
        "{:?}",
        told.elapsed()
    );
}

#[test]
fn a_leader_that_does_not_know_yet_that_it_was_deposed_spoils_nothing() {
    let world = World::new();
    let one = world.published_by_one();
    let _two = world.replica("two");
    // It sleeps for longer than its lease counts.
    one.signal(SIGSTOP);
    world.wait_for_leader("two");
    for (number, round) in (3..8).zip(0..) {
        world.create_pod(
            &format!("c{round}"),
            "db",
            "node1",
            &format!("10.0.0.{number}"),
        );
    }
    world.delete_pod("b");
    let right: Vec<String> = (3..8).map(|it| format!("10.0.0.{it}")).collect();
    let right: Vec<&str> = right.iter().map(String::as_str).collect();
    world.wait_for_peers(&[&right]);
    let version = || world.slices()[0].metadata.resource_version.clone();
    let before = version();
    one.signal(SIGCONT);
    world.eventually("one leads still", || {
        world.log(&one).contains("leads no longer")
    });
    thread::sleep(Duration::from_secs(2));
    world.wait_for_peers(&[&right]);
    assert_eq!(version(), before);
    assert_eq!(world.leader(), "two");
}

/// A replica that has not heard of everything yet would take what it has not heard of for gone.
#[test]
fn a_leader_writes_nothing_before_it_knows_everything() {
    let world = World::new();
    world.published_by_one().kill();
    let fault = netqos_apiserver::Fault::status(500);
    world.front.inject(fault.on("list", "pods").of("two"));
    let two = world.replica("two");
    world.wait_for_leader("two");
    thread::sleep(Duration::from_secs(3));
    assert_eq!(world.writes("two"), 0);
    assert!(world.log(&two).contains("does not tell of pods"));
    world.wait_for_peers(&[&["10.0.0.2"]]);
    world.front.heal();
    world.create_pod("c", "db", "node1", "10.0.0.3");
    world.wait_for_peers(&[&["10.0.0.2", "10.0.0.3"]]);
}
