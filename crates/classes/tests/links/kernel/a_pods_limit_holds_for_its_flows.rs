use std::thread;
use std::time::{Duration, Instant};

use netqos_classes::ClassBackend;
use netqos_core::classes::{Ask, FlowMatch, FlowPart, TrafficClass};
use netqos_core::{Direction, Dscp};
use netqos_testkit::classes::{BE, LS, World, mbit, payload, served_at, shares};
use netqos_traffic::Flow;

/// What the pod may send, in Mbit/s.
const LIMIT: f64 = 20.0;

fn part(port: u16, class: Option<TrafficClass>, min: u64, dscp: Option<i64>) -> FlowPart {
    FlowPart {
        direction: Direction::Egress,
        flow: FlowMatch {
            port: Some(port..=port),
            ..FlowMatch::default()
        },
        class,
        ask: Ask {
            min: mbit(min),
            max: None,
        },
        dscp: dscp.map(|mark| Dscp::try_new(mark).unwrap()),
    }
}

/// Of those with a part of their own, of those that are only marked, and of those in another class.
#[test]
fn whatever_flows_have_of_their_own() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.ask("be", 0, Some(20));
    let pod = world.plan.pods.get_mut("be").unwrap();
    pod.flows = vec![
        part(8443, None, 8, None),
        part(8444, None, 0, Some(46)),
        part(8445, Some(LS), 0, None),
    ];
    world.divide(shares(100));
    assert_eq!(world.divide(shares(100)).changes, 0);
    let limit = LIMIT * 1e6 * payload(false);
    for port in [8443, 8444, 8445] {
        let served = || world.served_at("be", port) * 1e6;
        world.baseline().assert_limited(port, limit, served);
    }
    let ((whole, flow), parts) = world.baseline().beside(|| both(&world));
    // On the wire, of which a second may begin with what passes at once after a pause.
    assert!(parts.contains(&(whole / LIMIT)), "{whole}, not {parts:?}");
    // It is guaranteed 8 of the 20.
    assert!(flow > 0.3 * whole, "{flow} of {whole}");

    // Without the pod's part they have theirs of the class, and nothing of before is left.
    let pod = world.plan.pods.get_mut("be").unwrap();
    pod.asked = Default::default();
    world.divide(shares(100));
    let standing = world.backend.standing().unwrap();
    assert_eq!(standing[&*world.line()].parts.len(), 1);
    let found = world.served_at("be", 8443);
    assert!(found > 1.2 * LIMIT, "{found}");
}

/// What the pod sends altogether, on the wire, and what one of its ports does at the same time.
fn both(world: &World) -> (f64, f64) {
    let look = || {
        let sent: u64 = world.sent(Flow::Upload).values().sum();
        (Instant::now(), sent as f64 * 8.0 / 1e6)
    };
    let both = || {
        thread::scope(|scope| {
            let (pod, outside) = (&world.pods["be"], &world.outside);
            let flow = scope.spawn(move || served_at(pod, outside, 8443));
            // Both send for two seconds and more.
            thread::sleep(Duration::from_millis(700));
            let (begin, before) = look();
            thread::sleep(Duration::from_secs(1));
            let (end, after) = look();
            let whole = (after - before) / (end - begin).as_secs_f64();
            (whole, flow.join().unwrap())
        })
    };
    let (_, both) = world.while_loaded(Flow::Upload, false, &["be"], 3.0, both);
    both
}

#[test]
fn flows_beyond_the_fifteenth_are_the_pods_own_which_is_said() {
    let Some(mut world) = World::new() else {
        return;
    };
    let pod = world.plan.pods.get_mut("be").unwrap();
    pod.flows = { 8001..=8016 }
        .map(|port| part(port, Some(LS), 0, None))
        .collect();
    world.plan.lines = [(world.line(), shares(100))].into();
    let outcome = world.backend.apply(&world.plan).unwrap();
    assert_eq!(outcome.lines, [world.line()], "{outcome:#?}");
    let said: Vec<&str> = { outcome.troubles.iter() }.map(|it| &*it.what).collect();
    let wanted = "only the first 15 of 16 flows have parts of their own";
    assert_eq!(said, [wanted]);
    for (port, class) in [(8015, LS), (8016, BE)] {
        let before = world.sent(Flow::Upload)[&class];
        let served = world.served_at("be", port);
        let sent = (world.sent(Flow::Upload)[&class] - before) as f64 * 8.0 / 2e6;
        assert!(sent > 0.95 * served, "{port}: {sent} of {served}");
    }
}
