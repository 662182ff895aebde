use std::time::Duration;

use netqos_testkit::rules::mbit;
use netqos_testkit::rules::measure::{CONTROLS, Case, WAYS, Ways};
use netqos_traffic::UdpTest;

use super::{HOOKS, best, on_both_hooks};

#[test]
fn with_cubic_and_with_bbr() {
    on_both_hooks(|hook| {
        let Some(mut ways) = Ways::new(hook) else {
            return;
        };
        // The hook matters as little to the one as to the other.
        let control = CONTROLS[usize::from(hook == HOOKS[0])];
        for case in Case::all(&[20, 100]).filter(|case| case.control == control) {
            let is_right = |share: &f64| (0.92..1.03).contains(share);
            let share = best(is_right, || ways.share(case, 1.5));
            assert!(is_right(&share), "{hook:?} {case}: {share:.3}");
        }
    });
}

/// The way that the test stands on: as long as it says, and wide enough.
#[test]
fn over_a_way_that_takes_its_time_and_loses_nothing() {
    let Some(ways) = Ways::new(HOOKS[0]) else {
        return;
    };
    for (round_trip, name) in &WAYS[1..] {
        let report = best(
            |report: &netqos_traffic::LatencyReport| {
                let median = report.round_trip.as_ref().unwrap().p50;
                report.lost == 0 && median < *round_trip + Duration::from_millis(1)
            },
            || ways.world.latency("sender", name),
        );
        assert_eq!(report.lost, 0);
        let median = report.round_trip.unwrap().p50;
        let right = *round_trip..*round_trip + Duration::from_millis(1);
        assert!(right.contains(&median), "{median:?}");

        let test = UdpTest {
            duration: Duration::from_secs(1),
            ..UdpTest::new(ways.world.address(name, false), mbit(300))
        };
        let report = best(
            |report: &netqos_traffic::UdpReport| report.lost == 0,
            || ways.world.run("sender", || test.run(|_| ()).unwrap()),
        );
        assert_eq!(report.lost, 0);
        assert!(report.goodput.rate > mbit(270), "{report}");
    }
}
