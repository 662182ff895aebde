use netqos_classes::{ClassBackend, Tc, Trouble};
use netqos_core::Direction;
use netqos_core::classes::{Ask, FlowMatch, FlowPart};
use netqos_testkit::classes::{BE, World, mbit, shares};

fn part(direction: Direction) -> FlowPart {
    FlowPart {
        direction,
        flow: FlowMatch {
            port: Some(80..=80),
            ..FlowMatch::default()
        },
        class: None,
        ask: Ask {
            min: mbit(1),
            max: None,
        },
        dscp: None,
    }
}

/// Of the other direction, by line and by pod, and of single flows.
#[test]
fn and_all_else_is_done() {
    let Some(mut world) = World::empty() else {
        return;
    };
    world.pod("be", BE);
    world.ask("be", 5, Some(20));
    let pod = world.plan.pods.get_mut("be").unwrap();
    pod.flows = vec![part(Direction::Egress), part(Direction::Ingress)];
    let line = world.line();
    // Both ways, which tc does not divide.
    world.plan.lines = [(line.clone(), shares(100))].into();
    let mut tc = Tc::default();
    let outcome = tc.apply(&world.plan).unwrap();
    assert_eq!(outcome.lines, std::slice::from_ref(&line));
    let row = |trouble: &Trouble| {
        let flow = trouble
            .part
            .as_ref()
            .map(|part| (part.pod.to_string(), part.flow));
        (trouble.line.clone(), flow, trouble.what.clone())
    };
    let found: Vec<_> = outcome.troubles.iter().map(row).collect();
    let of_pod = |flow, what: &str| (None, Some(("be".to_owned(), flow)), what.to_owned());
    let expected = [
        (
            Some(line.clone()),
            None,
            format!(
                "tc divides what {line} sends; what comes to it is shared by nobody (the backend kernel \
                 does both)"
            ),
        ),
        of_pod(
            None,
            "games/be: tc holds no pod to anything of what comes to it",
        ),
        of_pod(Some(0), "games/be: tc has no parts of single flows"),
        of_pod(Some(1), "games/be: tc has no parts of single flows"),
    ];
    assert_eq!(found, expected);
    let standing = tc.standing().unwrap();
    let parts: Vec<_> = standing[&line].parts.values().collect();
    assert_eq!(parts, [&(mbit(5), mbit(20))]);
}
