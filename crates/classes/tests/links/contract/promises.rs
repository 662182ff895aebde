//! The promises, in the order in which the contract has them.

use netqos_classes::{Outcome, Traffic, Trouble};
use netqos_testkit::classes::plans;
use netqos_testkit::classes::plans::LINES;
use netqos_testkit::classes::worlds::{Obstacle, World, enter};

fn names(outcome: &Outcome) -> Vec<&str> {
    outcome.lines.iter().map(|line| &**line).collect()
}

fn of_line<'o>(outcome: &'o Outcome, line: &str) -> Vec<&'o Trouble> {
    let is_of_line = |trouble: &&Trouble| trouble.line.as_deref() == Some(line);
    outcome.troubles.iter().filter(is_of_line).collect()
}

/// 1. After `apply` each line holds in each direction what the plan says, or what it held before, and
///    then the outcome says why; one line or pod stops no other.
pub fn all_or_as_before_by_line<W: World>() {
    let Some(world) = enter::<W>() else { return };
    let mut backend = world.backend();
    let outcome = backend.apply(&plans::old()).unwrap();
    assert_eq!(
        names(&outcome),
        world.divided(&plans::old()),
        "{outcome:#?}"
    );
    assert_eq!(backend.standing().unwrap(), world.expected(&plans::old()));

    // A pod that nothing is known of.
    let plan = plans::with_unknown(plans::old());
    let outcome = backend.apply(&plan).unwrap();
    assert_eq!(names(&outcome), world.divided(&plan));
    let is_of_pod = |trouble: &Trouble| {
        let part = trouble.part.as_ref();
        part.is_some_and(|part| &*part.pod == "unknown") && !trouble.what.is_empty()
    };
    let is_said = outcome.troubles.iter().any(is_of_pod);
    assert_eq!(is_said, W::TELLS_PODS, "{:#?}", outcome.troubles);
    let mut found = backend.standing().unwrap();
    for line in found.values_mut() {
        // Whether it has a part that it cannot use says nothing.
        line.parts.retain(|(_, part), _| &*part.pod != "unknown");
    }
    assert_eq!(found, world.expected(&plans::old()));

    let before = world.state();
    match world.obstruct() {
        Obstacle::None => {}
        Obstacle::Everything(clear, why) => {
            let obstructed = world.state();
            let error = backend.apply(&plans::new()).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
            assert_eq!(world.state(), obstructed);
            clear();
            assert_eq!(world.state(), before);
        }
        Obstacle::Line(line, clear, why) => {
            let plan = plans::new();
            let outcome = backend.apply(&plan).unwrap();
            let others: Vec<_> = world
                .divided(&plan)
                .into_iter()
                .filter(|it| *it != line)
                .collect();
            assert_eq!(names(&outcome), others, "{outcome:#?}");
            let said = of_line(&outcome, line);
            assert!(said.iter().any(|it| it.what.contains(why)), "{outcome:#?}");
            let [mut found, mut expected] = [backend.standing().unwrap(), world.expected(&plan)];
            // It holds what it held.
            found.remove(line);
            expected.remove(line);
            assert_eq!(found, expected);
            clear();
        }
    }
    let outcome = backend.apply(&plans::new()).unwrap();
    assert_eq!(
        names(&outcome),
        world.divided(&plans::new()),
        "{outcome:#?}"
    );
    assert_eq!(backend.standing().unwrap(), world.expected(&plans::new()));
}

/// 2. A second `apply` of the same plan changes nothing, whoever makes it.
pub fn again_is_nothing<W: World>() {
    let Some(world) = enter::<W>() else { return };
    let mut backend = world.backend();
    for plan in [plans::old(), plans::new(), plans::little(), plans::old()] {
        let first = backend.apply(&plan).unwrap();
        assert_eq!(first.changes > 0, W::CHANGES, "{first:#?}");
        let state = world.state();
        for who in [&mut backend, &mut world.backend()] {
            let again = who.apply(&plan).unwrap();
            assert_eq!(
                again,
                Outcome {
                    changes: 0,
                    ..first.clone()
                }
            );
            assert_eq!(world.state(), state);
        }
        assert_eq!(backend.standing().unwrap(), world.expected(&plan));
    }
}

/// 4. Other rates are written over the old ones: nothing is lost while both plans have the line, of what
///    waits as little as of what comes.
pub fn a_change_is_a_change<W: World>() {
    let Some(world) = enter::<W>() else { return };
    let mut backend = world.backend();
    let (old, new) = (plans::slow(plans::old()), plans::slow(plans::new()));
    backend.apply(&old).unwrap();
    world.without_a_loss(&mut || {
        for _ in 0..4 {
            backend.apply(&new).unwrap();
            backend.apply(&old).unwrap();
        }
    });
}

/// 5. What somebody configured by hand is never replaced, and what the kernel puts there by itself is
///    back after `teardown`.
pub fn what_is_not_ours_stays<W: World>() {
    let Some(world) = enter::<W>() else { return };
    world.neighbours();
    let before = world.state();
    let mut backend = world.backend();
    backend.apply(&plans::old()).unwrap();
    backend.apply(&plans::new()).unwrap();
    backend.teardown().unwrap();
    assert_eq!(world.state(), before);
    match world.obstruct() {
        Obstacle::None => {}
        Obstacle::Everything(clear, _) => clear(),
        Obstacle::Line(line, clear, why) => {
            let obstructed = world.state();
            let outcome = backend.apply(&plans::old()).unwrap();
            let said = of_line(&outcome, line);
            assert!(said.iter().any(|it| it.what.contains(why)), "{outcome:#?}");
            backend.teardown().unwrap();
            assert_eq!(world.state(), obstructed);
            clear();
        }
    }
    assert_eq!(world.state(), before);
}

/// 6. A line that is gone is taken up again by the next `apply` after it came back.
pub fn a_line_that_is_gone_is_no_error_of_the_others<W: World>() {
    let Some(world) = enter::<W>() else { return };
    let plan = plans::old();
    let mut backend = world.backend();
    backend.apply(&plan).unwrap();
    world.remove_line(LINES[1]);
    let outcome = backend.apply(&plan).unwrap();
    if W::SEES_LINES {
        assert_eq!(names(&outcome), [LINES[0]]);
        let said = of_line(&outcome, LINES[1]);
        assert!(
            said.iter().any(|it| it.what.contains(LINES[1])),
            "{outcome:#?}"
        );
        assert!(backend.standing().unwrap().contains_key(LINES[0]));
    } else {
        assert_eq!(outcome.changes, 0);
    }
    world.add_line(LINES[1]);
    let outcome = backend.apply(&plan).unwrap();
    assert_eq!(names(&outcome), world.divided(&plan));
    assert_eq!(backend.standing().unwrap(), world.expected(&plan));
}

/// 7. `standing` says what is in force as the kernel, or the file, has it.
pub fn reading_is_not_changing<W: World>() {
    let Some(world) = enter::<W>() else { return };
    let mut backend = world.backend();
    assert_eq!(backend.standing().unwrap(), Default::default());
    backend.apply(&plans::little()).unwrap();
    let state = world.state();
    let standing = backend.standing().unwrap();
    assert_eq!(standing, world.expected(&plans::little()));
    assert_eq!(world.state(), state);
    let Some((line, key, share)) = world.tamper() else {
        return;
    };
    assert_ne!(standing[line].classes[&key], share);
    let found = backend.standing().unwrap();
    assert_eq!(found[line].classes[&key], share);
    // And what differs is put right again.
    assert!(backend.apply(&plans::little()).unwrap().changes > 0);
    assert_eq!(backend.standing().unwrap(), standing);
}

/// 7. What another process changed of the rest is put right by the next `apply` as well.
pub fn change_by_another_process_is_restored<W: World>() {
    let Some(world) = enter::<W>() else { return };
    let mut backend = world.backend();
    backend.apply(&plans::old()).unwrap();
    let standing = backend.standing().unwrap();
    for (number, fault) in world.faults().into_iter().enumerate() {
        let before = world.state();
        fault();
        assert_ne!(world.state(), before, "fault {number}");
        let outcome = backend.apply(&plans::old()).unwrap();
        assert!(outcome.changes > 0, "fault {number}: {outcome:#?}");
        // What was lost may come back by another number.
        let after = world.state();
        let sizes = [&before, &after].map(|state| state.lines().count());
        assert_eq!(sizes[0], sizes[1], "fault {number}: {before}\n\n{after}");
        assert_eq!(backend.standing().unwrap(), standing, "fault {number}");
        assert_eq!(backend.apply(&plans::old()).unwrap().changes, 0);
    }
}

/// 8. `teardown` leaves nothing, and may be repeated, also without any `apply` before.
pub fn teardown_leaves_nothing<W: World>() {
    let Some(world) = enter::<W>() else { return };
    let before = world.state();
    world.backend().teardown().unwrap();
    assert_eq!(world.state(), before);
    let mut backend = world.backend();
    backend.apply(&plans::old()).unwrap();
    backend.teardown().unwrap();
    backend.teardown().unwrap();
    assert_eq!(world.state(), before);
    assert_eq!(backend.standing().unwrap(), Default::default());
    // Another process's.
    backend.apply(&plans::new()).unwrap();
    world.backend().teardown().unwrap();
    assert_eq!(world.state(), before);
}

/// 9. `traffic` is of the classes of a line that its packets go through, and of no others. (That it
///    counts what passes is seen where something does: `kernel` and `tc`.)
pub fn what_it_counts_it_has_seen<W: World>() {
    let Some(world) = enter::<W>() else { return };
    let mut backend = world.backend();
    assert_eq!(backend.traffic(LINES[0]).unwrap(), Traffic::new());
    backend.apply(&plans::old()).unwrap();
    let state = world.state();
    let standing = backend.standing().unwrap();
    for line in LINES {
        let of_line = standing.get(line).filter(|_| W::HAS_PACKETS);
        let expected = of_line.map(|it| it.classes.keys().copied().collect());
        let found = backend.traffic(line).unwrap().into_keys().collect();
        assert_eq!(Some(found), expected.or_else(|| Some(Vec::new())), "{line}");
    }
    assert_eq!(backend.traffic("no-line").unwrap(), Traffic::new());
    assert_eq!(world.state(), state);
    backend.teardown().unwrap();
    assert_eq!(backend.traffic(LINES[0]).unwrap(), Traffic::new());
}
