use std::time::Duration;

use netqos_api::HookChoice;
use netqos_traffic::UdpTest;

use crate::measure::{CONTROLS, Case, WAYS, Ways, median};
use crate::world::mbit;
use crate::{HOOKS, best, on_both_hooks};

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

/// The table of docs/rules.md.
#[test]
#[ignore = "takes minutes; the bench runs it"]
fn the_table() {
    print_table(Ways::new(HookChoice::Auto), &[1, 10, 20, 100, 1000]);
}

/// The same where there is no queue.
#[test]
#[ignore = "takes minutes; the bench runs it"]
fn the_table_of_a_policer() {
    print_table(Ways::policed(HookChoice::Auto), &[20, 100]);
}

/// Every cell is the median of `NETQOS_REPEATS` runs, in turn.
fn print_table(ways: Option<Ways>, rates: &[u64]) {
    let repeats: usize = std::env::var("NETQOS_REPEATS").map_or(3, |text| text.parse().unwrap());
    let Some(mut ways) = ways else {
        return;
    };
    let cases: Vec<Case> = Case::all(rates).collect();
    let mut shares = vec![Vec::new(); cases.len()];
    for _ in 0..repeats {
        for (case, shares) in cases.iter().zip(&mut shares) {
            // At 1 Mbit/s the queue alone is 16 frames, a fifth of a second.
            let seconds = if case.megabits < 10 { 8.0 } else { 3.0 };
            shares.push(ways.share(*case, seconds));
        }
    }
    println!("| rate | round trip | | % of the rate, median of {repeats} | lowest | highest |");
    println!("|---|---|---|---|---|---|");
    for (case, mut shares) in cases.iter().zip(shares) {
        shares.sort_by(f64::total_cmp);
        let [lowest, highest] = [shares[0], shares[shares.len() - 1]].map(|share| 100.0 * share);
        let median = 100.0 * median(shares);
        println!("| {case} | {median:.1} | {lowest:.1} | {highest:.1} |");
    }
}
