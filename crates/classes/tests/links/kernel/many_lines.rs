use std::thread;
use std::time::Duration;

use netqos_classes::ClassBackend;
use netqos_testkit::classes::{BE, LS, SYSTEM, World, shares};
use netqos_traffic::Flow;

/// More than there is room for where packets find their leaf without a search.
#[test]
fn are_all_divided_and_each_tells_its_flows_apart() {
    let Some(mut world) = World::new() else {
        return;
    };
    // Their names come before that of the line to the outside.
    for number in 0..9 {
        let [name, peer] = [format!("line-{number}"), format!("peer-{number}")];
        let words = [
            "link", "add", &name, "up", "type", "veth", "peer", "name", &peer,
        ];
        world.node.run("ip", &words).unwrap();
        world.plan.lines.insert(name.into(), shares(100));
    }
    world.plan.lines.insert(world.line(), shares(100));
    let outcome = world.backend.apply(&world.plan).unwrap();
    assert_eq!((outcome.lines.len(), outcome.troubles.len()), (10, 0));
    assert_eq!(world.backend.apply(&world.plan).unwrap().changes, 0);
    let known = |world: &World| {
        for (pod, class) in [("sys", SYSTEM), ("ls", LS), ("be", BE)] {
            for flow in [Flow::Upload, Flow::Download] {
                let before = world.sent(flow);
                let found = world.transfer(pod, flow, false);
                let counted = world.sent(flow)[&class] - before[&class];
                assert!(counted as f64 >= 0.95 * found, "{pod} {flow:?}: {counted}");
            }
        }
        // Its questions do not wait behind what the same pod sends, as those of another pod do not.
        let (_, asked) = world.while_loaded(Flow::Upload, false, &["be"], 4.0, || {
            ["be", "ls"].map(|pod| world.latency(pod, 1).round_trip.unwrap().p50)
        });
        assert!(
            asked[0] < asked[1] * 2 + Duration::from_millis(5),
            "{asked:?}"
        );
    };
    // True of each direction where a pod's questions, which are little, wait in the tree.
    let waits = |world: &World| {
        thread::sleep(Duration::from_millis(400));
        let look =
            || [Flow::Upload, Flow::Download].map(|flow| world.divided(flow).values().sum::<u64>());
        let before = look();
        assert_eq!(world.latency("ls", 1).lost, 0);
        let after = look();
        [0, 1].map(|way| after[way] > before[way] + 50_000)
    };
    known(&world);
    assert_eq!(waits(&world), [true; 2], "it has no place");
    // The others go, and with them what they have taken of that room.
    world
        .plan
        .lines
        .retain(|name, _| *name == world.outside.host_link().into());
    let outcome = world.backend.apply(&world.plan).unwrap();
    assert_eq!((outcome.lines.len(), outcome.troubles.len()), (1, 0));
    assert_eq!(world.backend.apply(&world.plan).unwrap().changes, 0);
    known(&world);
    assert_eq!(waits(&world), [false; 2], "it has one now");
}
