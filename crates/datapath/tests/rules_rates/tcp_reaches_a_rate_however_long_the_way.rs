use std::time::{Duration, Instant};

use netqos_traffic::UdpTest;

use crate::measure::{Case, WAYS, Ways, median};
use crate::world::mbit;
use crate::{best, on_both_hooks};

#[test]
fn with_cubic_and_with_bbr() {
    on_both_hooks(|hook| {
        let Some(mut ways) = Ways::new(hook) else {
            return;
        };
        for case in Case::all(&[20, 100]) {
            let is_right = |share: &f64| (0.92..1.03).contains(share);
            let share = best(is_right, || ways.share(case, 1.5));
            assert!(is_right(&share), "{hook:?} {case}: {share:.3}");
        }
    });
}

/// The way that the test stands on: as long as it says, and wide enough.
#[test]
fn over_a_way_that_takes_its_time_and_loses_nothing() {
    let Some(ways) = Ways::new(crate::HOOKS[0]) else {
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

/// The table of docs/rules.md: every cell the median of `NETQOS_REPEATS` runs, in turn.
#[test]
#[ignore = "takes minutes; the bench runs it"]
fn the_table() {
    let repeats: usize = std::env::var("NETQOS_REPEATS").map_or(3, |text| text.parse().unwrap());
    let Some(mut ways) = Ways::new(netqos_api::HookChoice::Auto) else {
        return;
    };
    let cases: Vec<Case> = Case::all(&[1, 10, 20, 100, 1000]).collect();
    let mut shares = vec![Vec::new(); cases.len()];
    let begin = Instant::now();
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
    eprintln!("{:?}", begin.elapsed());
}
