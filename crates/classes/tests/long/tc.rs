use netqos_classes::Tc;
use netqos_testkit::classes::tc::{ask, carried, divide};
use netqos_testkit::classes::{BE, World, divided, shares};
use netqos_traffic::Flow;

const ALL: [&str; 3] = ["sys", "ls", "be"];

/// What arrives of a line is without the headers of Ethernet, IP and TCP.
fn payload(v6: bool) -> f64 {
    if v6 { 1428.0 / 1514.0 } else { 1448.0 / 1514.0 }
}

/// Measures until it is right, three times at most: a machine that does other things, too, may spoil a
/// measurement.
fn assert_comes(
    mut measure: impl FnMut() -> Vec<f64>,
    is_right: impl Fn(&[f64]) -> bool,
    of: &str,
) {
    let mut tries = Vec::new();
    for _ in 0..3 {
        let found = measure();
        if is_right(&found) {
            return;
        }
        eprintln!("not as expected: {found:?}, {of}");
        tries.push(found);
    }
    panic!("{tries:?}, {of}");
}

fn assert_near(v6: bool, expected: &[f64], within: f64, measure: impl FnMut() -> Vec<f64>) {
    let near = |(found, expected): (&f64, &f64)| (found / payload(v6) - expected).abs() <= within;
    let is_right = |found: &[f64]| found.iter().zip(expected).all(near);
    assert_comes(measure, is_right, &format!("{expected:?}, v6: {v6}"));
}

#[test]
fn when_everybody_wants_all_of_the_line() {
    let Some(mut world) = World::new() else {
        return;
    };
    let mut tc = Tc::default();
    divide(&mut world, &mut tc, shares(100));
    for is_masqueraded in [false, true] {
        if is_masqueraded {
            world.masquerade();
        }
        for v6 in [false, true] {
            for (pods, expected) in [
                (&ALL[..], [40.0, 30.0, 30.0]),
                // Who comes first has what nobody else asks for.
                (&["ls", "be"], [0.0, 70.0, 30.0]),
                (&["be"], [0.0, 0.0, 100.0]),
            ] {
                let near = |(found, expected): (&f64, f64)| (found - expected).abs() <= 1.5;
                let is_right = |found: &[f64]| {
                    found.iter().zip(expected).all(near) && found.iter().sum::<f64>() >= 97.0
                };
                let of = format!("{expected:?}, masqueraded {is_masqueraded}, v6 {v6}");
                assert_comes(|| carried(&world, v6, pods), is_right, &of);
            }
        }
    }
}

#[test]
fn and_pods_have_their_parts_of_their_classes_never_more_together_than_those() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.pod("be2", BE);
    ask(&mut world, "be", 20, Some(40));
    let mut tc = Tc::default();
    divide(&mut world, &mut tc, shares(100));
    // be has 20 of the 30 of its class, and what nobody takes up to its limit.
    assert_near(false, &[70.0, 20.0, 10.0], 3.0, || {
        world.together(Flow::Upload, false, &["ls", "be", "be2"], 4.0)
    });
    assert_near(true, &[40.0], 3.0, || {
        world.together(Flow::Upload, true, &["be"], 3.0)
    });
    // An administrator changes it while it runs, and the class has a limit of its own.
    ask(&mut world, "be", 20, Some(25));
    divide(&mut world, &mut tc, divided(100, [30, 100], [30, 35]));
    assert_comes(
        || world.together(Flow::Upload, false, &["be", "be2"], 3.0),
        |found| found.iter().sum::<f64>() / payload(false) < 37.0,
        "at most 37 together",
    );
    assert_near(false, &[25.0], 2.0, || {
        world.together(Flow::Upload, false, &["be"], 3.0)
    });
}
