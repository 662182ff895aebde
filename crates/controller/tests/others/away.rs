//! An API server that is not there when the controller is started.

use std::thread;
use std::time::Duration;

use netqos_faults::Fault;

use crate::world::World;

#[test]
fn a_controller_that_is_started_while_the_server_is_away_works_when_it_is_there() {
    let world = World::new();
    world.published_by_one().kill();
    let slice = || {
        let slice = world.slices().remove(0);
        (slice.metadata.uid, slice.metadata.resource_version)
    };
    let before = slice();
    world.front.go_away().unwrap();
    let mut two = world.replica("two");
    thread::sleep(Duration::from_secs(3));
    assert!(two.is_running(), "{}", world.log(&two));
    assert!(!world.log(&two).contains("everything is known"));

    // It leads long before it knows the pods, and takes none for gone meanwhile.
    let fault = Fault::status(500);
    world.front.inject(fault.on("list", "pods").of("two"));
    world.front.come_back().unwrap();
    world.wait_for_leader("two");
    thread::sleep(Duration::from_secs(3));
    assert_eq!(world.writes("two"), 0);
    assert_eq!(slice(), before);
    world.front.heal();
    world.eventually("it does not come to know everything", || {
        world.log(&two).contains("everything is known")
    });
    world.wait_for("p", "Ready", "True", "Ready");
    // What is right is not written again.
    assert_eq!(slice(), before);
    world.create_pod("c", "db", "node1", "10.0.0.3");
    world.wait_for_peers(&[&["10.0.0.2", "10.0.0.3"]]);
    assert_eq!(slice().0, before.0);
}
