use std::thread;
use std::time::Duration;

use netqos_core::Rule;
use netqos_index::Change;
use netqos_testkit::rules::{World, limiting, mbit, policy, to_pod};
use netqos_traffic::{LatencyReport, LatencyTest};

use super::{Stream, best, on_both_hooks};

/// Requests every 20 ms for a second, while something else goes on.
fn requests(world: &World, to: &str) -> LatencyReport {
    let test = LatencyTest {
        interval: Duration::from_millis(20),
        duration: Duration::from_secs(1),
        ..LatencyTest::new(world.address(to, false))
    };
    world.run("free", || test.run(|_| ()).unwrap())
}

fn median(report: &LatencyReport) -> Duration {
    report.round_trip.as_ref().map_or(Duration::MAX, |q| q.p50)
}

fn world(hook: netqos_api::HookChoice, megabits: u64) -> Option<World> {
    let mut world = World::new(hook)?;
    world.pod("free", "player");
    world.pod("gateway", "gateway");
    world.pod("other", "other");
    let rule = Rule {
        to: vec![to_pod("gateway")],
        ..limiting(megabits)
    };
    world.apply(Change::Policy(policy("p", 1, "player", vec![rule])));
    Some(world)
}

/// The rule's queue is 25 ms long at both rates.
#[test]
fn of_the_same_rule() {
    for megabits in [10, 100] {
        on_both_hooks(move |hook| {
            let Some(world) = world(hook, megabits) else {
                return;
            };
            let bulk = [
                Stream::tcp(&world, "free", "gateway"),
                Stream::udp(&world, "free", "gateway", mbit(2 * megabits)),
            ];
            for bulk in bulk {
                let is_right = |report: &LatencyReport| report.lost == 0 && median(report) < ms(5);
                let report = best(is_right, || {
                    thread::scope(|scope| {
                        let bulk = scope.spawn(move || bulk.run(1.0));
                        thread::sleep(Duration::from_millis(700));
                        let report = requests(&world, "gateway");
                        bulk.join().unwrap();
                        report
                    })
                });
                println!("{hook:?}, {megabits}: {report}");
                assert!(is_right(&report), "{hook:?}, {megabits}: {report}");
            }
        });
    }
}

#[test]
fn outside_of_the_rule() {
    on_both_hooks(|hook| {
        let Some(world) = world(hook, 1) else {
            return;
        };
        let flood = Stream::udp(&world, "free", "gateway", mbit(20));
        let outside = Stream::tcp(&world, "free", "other");
        let is_right = |(report, tcp): &(LatencyReport, f64)| {
            report.lost == 0 && median(report) < ms(2) && *tcp > 1e9
        };
        let seen = best(is_right, || {
            thread::scope(|scope| {
                let flood = scope.spawn(move || flood.run(3.0));
                thread::sleep(Duration::from_millis(500));
                let report = requests(&world, "other");
                let tcp = outside.run(1.0);
                let flood = flood.join().unwrap();
                assert!(flood < 1.1e6, "{flood}");
                (report, tcp)
            })
        });
        println!("{hook:?}: {:.0}, {}", seen.1, seen.0);
        assert!(is_right(&seen), "{hook:?}: {:.0}, {}", seen.1, seen.0);
    });
}

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}
