//! That classes share an uplink at all, by ratios within one run; the program `long` measures how exactly.

use netqos_classes::{ClassBackend, Tc};
use netqos_core::Direction;
use netqos_testkit::classes::tc::{ask, carried, divide};
use netqos_testkit::classes::{BE, LS, World, shares};
use netqos_traffic::Flow;

#[test]
fn traffic_of_each_class_is_counted() {
    let Some(mut world) = World::new() else {
        return;
    };
    let mut tc = Tc::default();
    divide(&mut world, &mut tc, shares(100));
    let line = world.line();
    let before = tc.traffic(&line).unwrap();
    let rates = world.together(Flow::Upload, false, &["be"], 2.0);
    let least = rates[0] * 1e6 / 8.0 * 2.0;
    let after = tc.traffic(&line).unwrap();
    let took = |class| {
        after[&(Direction::Egress, class)].bytes - before[&(Direction::Egress, class)].bytes
    };
    // A second that is not measured comes before.
    let sent = took(BE) as f64;
    assert!((least..least * 2.5).contains(&sent), "{sent} of {least}");
    assert!(took(LS) < 10_000, "{after:?}");
    assert_eq!(after.len(), 3, "what comes is seen by nobody");
}

#[test]
fn busy_classes_share_the_uplink_by_their_guarantees() {
    let Some(mut world) = World::new() else {
        return;
    };
    let mut tc = Tc::default();
    divide(&mut world, &mut tc, shares(20));
    for is_masqueraded in [false, true] {
        if is_masqueraded {
            world.masquerade();
        }
        for v6 in [false, true] {
            let load = || carried(&world, v6, &["sys", "ls", "be"]);
            let (found, parts) = world.baseline().beside(load);
            let sum: f64 = found.iter().sum();
            assert!(parts.contains(&(sum / 20.0)), "{found:?}, not {parts:?}");
            for (found_of_class, share) in found.iter().zip([0.4, 0.3, 0.3]) {
                assert!((found_of_class / sum - share).abs() < 0.1, "{found:?}");
            }
        }
    }
}

#[test]
fn limit_of_a_pod_holds_within_its_class() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.pod("be2", BE);
    // An administrator changes it while it runs.
    let mut tc = Tc::default();
    for (most, v6) in [(8, false), (5, true)] {
        ask(&mut world, "be", 4, Some(most));
        divide(&mut world, &mut tc, shares(20));
        let (found, parts) = world.baseline().beside(|| carried(&world, v6, &["be"]));
        let part = found.iter().sum::<f64>() / most as f64;
        assert!(parts.contains(&part), "{found:?}, not {parts:?}");
    }
}
