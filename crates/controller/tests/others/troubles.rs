//! Whatever the server does, and whenever the controller dies.

use std::thread;
use std::time::{Duration, Instant};

use netqos_faults::Fault;

use crate::world::World;

/// A trouble, and how it begins.
type Trouble = (&'static str, fn(&World));

const TROUBLES: [Trouble; 8] = [
    ("500 to every third request", |world| {
        world.front.inject(Fault::status(500).of("one").every(3));
    }),
    ("429 with Retry-After", |world| {
        let fault = Fault::status(429).of("one").retry_after(1).times(5);
        world.front.inject(fault);
    }),
    ("slow answers", |world| {
        let fault = Fault::delay(Duration::from_millis(300));
        world.front.inject(fault.of("one"));
    }),
    ("connections that are closed", |world| {
        // Not every second one: who asks and then writes would for ever ask, and never write.
        world.front.inject(Fault::close().of("one").every(3));
        world.front.break_watches();
    }),
    ("410 Gone", |world| {
        world.front.expire_versions();
        world.front.break_watches();
    }),
    ("watches that end", |world| world.front.end_watches()),
    ("writes of slices that are refused", |world| {
        for verb in ["create", "update", "delete"] {
            let fault = Fault::status(403)
                .on(verb, "networkqospeerslices")
                .of("one");
            world.front.inject(fault.times(2));
        }
    }),
    ("away for a while", |world| {
        world.front.go_away().unwrap();
        thread::sleep(Duration::from_secs(2));
        world.front.come_back().unwrap();
    }),
];

#[test]
fn what_is_published_is_right_in_the_end() {
    let world = World::new();
    world.create_policy("p", "web", "db");
    world.create_policy("q", "web", "web");
    world.create_pod("b0", "db", "node1", "10.0.0.1");
    world.create_pod("w0", "web", "node1", "10.1.0.1");
    let _replica = world.replica("one");
    world.wait_for_peers(&[&["10.0.0.1"], &["10.1.0.1"]]);
    for (number, (trouble, begin)) in (1_u8..).zip(TROUBLES) {
        println!("{trouble}");
        begin(&world);
        // One that moves from one set to the other, one that comes and one that goes.
        world.delete_pod(&format!("b{}", number - 1));
        world.delete_pod(&format!("w{}", number - 1));
        let (here, there) = (
            format!("10.0.0.{}", number + 1),
            format!("10.1.0.{}", number + 1),
        );
        world.create_pod(&format!("b{number}"), "db", "node1", &here);
        world.create_pod(&format!("w{number}"), "web", "node1", &there);
        world.wait_for_peers(&[&[&here], &[&there]]);
        world.front.heal();
    }
}

/// Whatever was written then, the next one makes of it what it should be.
#[test]
fn killed_in_the_middle_of_writing_slices_the_next_one_finishes() {
    const SETS: usize = 80;
    let world = World::new();
    // More than a few replicas can write before they are killed.
    for number in 0..SETS {
        let app = format!("app{number}");
        world.create_pod(&app, &app, "node1", &format!("10.0.0.{number}"));
        world.create_policy(&app, "web", &app);
    }
    // Longer than it takes to see them: several are under way at a time.
    let fault = Fault::delay(Duration::from_millis(200));
    world
        .front
        .inject(fault.on("create", "networkqospeerslices"));
    let mut before = 0;
    let mut rounds = 0;
    while before < SETS && rounds < 6 {
        let name = format!("r{rounds}");
        let replica = world.replica(&name);
        let more = before + 7;
        world.eventually("nothing more is written", || {
            world.slices().len() >= more.min(SETS)
        });
        replica.kill();
        // The Lease of the dead one need not be waited for each time.
        world.delete(
            ("coordination.k8s.io/v1", "Lease", crate::world::HOME),
            "netqos-controller",
        );
        before = world.slices().len();
        rounds += 1;
    }
    assert!(rounds > 2, "it was not killed in the middle: {rounds}");
    world.front.heal();
    let _replica = world.replica("last");
    let right: Vec<String> = (0..SETS).map(|it| format!("10.0.0.{it}")).collect();
    let sets: Vec<[&str; 1]> = right.iter().map(|it| [it.as_str()]).collect();
    let sets: Vec<&[&str]> = sets.iter().map(|it| &it[..]).collect();
    world.wait_for_peers(&sets);
    assert_eq!(world.slices().len(), SETS);
}

/// Nothing may be written in one namespace, as where somebody has bounded how many objects there are.
#[test]
fn a_set_that_is_refused_stops_no_other() {
    let world = World::new();
    let refused = ["create", "update", "delete"];
    for verb in refused {
        let fault = Fault::status(403).on(verb, "networkqospeerslices");
        world.front.inject(fault.of("one").every(2));
    }
    // Whatever their order, every other write is refused.
    for number in 0..6 {
        let app = format!("app{number}");
        world.create_pod(&app, &app, "node1", &format!("10.0.0.{number}"));
        world.create_policy(&app, "web", &app);
    }
    let _one = world.replica("one");
    let right: Vec<String> = (0..6).map(|it| format!("10.0.0.{it}")).collect();
    let sets: Vec<[&str; 1]> = right.iter().map(|it| [it.as_str()]).collect();
    let sets: Vec<&[&str]> = sets.iter().map(|it| &it[..]).collect();
    let first = Instant::now();
    world.eventually("nothing is written beside what is refused", || {
        world.slices().len() >= 3
    });
    assert!(first.elapsed() < Duration::from_secs(10));
    world.wait_for_peers(&sets);
}

/// What is known to be there goes, also when its last write failed.
#[test]
fn a_slice_whose_last_write_failed_does_not_stay() {
    let world = World::new();
    world.create_policy("p", "web", "db");
    world.create_pod("b", "db", "node1", "10.0.0.1");
    let _one = world.replica("one");
    world.wait_for_peers(&[&["10.0.0.1"]]);
    let fault = Fault::status(500).on("update", "networkqospeerslices");
    world.front.inject(fault.of("one"));
    world.create_pod("c", "db", "node1", "10.0.0.2");
    world.eventually("nothing was refused", || {
        let requests = world.requests("one").into_iter();
        let mut updates = requests.filter(|(verb, _)| verb == "update");
        updates.any(|(_, resource)| resource == "networkqospeerslices")
    });
    world.delete(world.policies(), "p");
    world.wait_for_peers(&[]);
}
