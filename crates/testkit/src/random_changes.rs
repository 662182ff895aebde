//! Random changes of a queue under bulk traffic.

use std::fmt::{Debug, Display};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::thread;
use std::time::{Duration, Instant};

use netqos_core::{BitRate, ByteCount};
use netqos_netlink::qdisc::Statistics;

use crate::{assert_progress, time_of_progress, wait_for_backlog};

/// A queue that a test changes.
pub trait ChangedQueue {
    /// A change.
    type Change: Debug;

    /// Applies a change. Returns the rate at which the queue sends from now on.
    fn change(&mut self, change: &Self::Change) -> BitRate;

    /// The counters and the backlog of bulk traffic. `None` before the first change.
    fn statistics(&self) -> Option<Statistics>;
}

/// A random number between two others. Each power of ten is as likely as another.
pub fn random_between(low: f64, high: f64) -> f64 {
    low * (high / low).powf(random() as f64 / u64::MAX as f64)
}

/// A rate from 100 kbit/s to 1 Gbit/s, or to the rate in `NETQOS_HIGHEST_RATE` on a machine that fills no such queue; in half
/// of the cases with a burst from 1 kB to 10 MB.
///
/// # Panics
/// Panics if the variable is no number.
pub fn random_rate_and_burst() -> (BitRate, Option<ByteCount>) {
    let highest = std::env::var("NETQOS_HIGHEST_RATE").ok();
    let highest = highest.map_or(1e9, |text| match text.parse() {
        Ok(rate) => rate,
        Err(why) => panic!("NETQOS_HIGHEST_RATE={text}: {why}"),
    });
    let rate = BitRate::from_bits_per_second(random_between(1e5, highest) as u64);
    let burst = ByteCount::from_bytes(random_between(1e3, 1e7) as u64);
    (rate, random().is_multiple_of(2).then_some(burst))
}

fn random() -> u64 {
    // Each has other keys.
    RandomState::new().build_hasher().finish()
}

/// Applies so many random changes to a queue and asserts that it sends its backlog after each. Returns the number
/// of changes with a backlog.
///
/// # Panics
/// Panics if a queue with a backlog sends no frame for 200 ms, or for the time of four frames at the new rate.
pub fn assert_random_changes_keep_flow<Q: ChangedQueue>(
    case: &impl Display,
    queue: &mut Q,
    times: usize,
    random_change: impl Fn() -> Q::Change,
) -> usize {
    let mut history = Vec::new();
    let with_backlog = (0..times).filter(|_| {
        let change = random_change();
        wait_for_backlog(|| queue.statistics().is_none_or(|it| it.queued_packets > 0));
        thread::sleep(Duration::from_millis(random() % 20));
        let rate = queue.change(&change);
        history.push(change);
        let situation = || {
            let last = &history[history.len().saturating_sub(3)..];
            format!("{case}, after {last:#?}")
        };
        let statistics = || queue.statistics().unwrap_or_default();
        assert_progress(time_of_progress(rate), statistics, situation)
    });
    with_backlog.count()
}

/// Runs each `step`-th case once. With `NETQOS_MINUTES`, runs all cases again and again for that many minutes.
/// `run` makes so many changes, and returns the number of those with a backlog, or `None` if it has to be skipped.
///
/// # Panics
/// Panics if too few changes had a backlog to prove anything.
pub fn run_cases<C>(
    cases: &[C],
    step: usize,
    times: usize,
    mut run: impl FnMut(&C, usize) -> Option<usize>,
) {
    let minutes = std::env::var("NETQOS_MINUTES").ok();
    let time = minutes.map(|minutes| match minutes.parse::<u64>() {
        Ok(minutes) => Duration::from_secs(60 * minutes),
        Err(why) => panic!("NETQOS_MINUTES={minutes}: {why}"),
    });
    let began = Instant::now();
    let (mut changes, mut with_backlog) = (0, 0);
    loop {
        let step = if time.is_some() { 1 } else { step };
        for case in cases.iter().step_by(step) {
            let Some(counted) = run(case, times) else {
                return;
            };
            changes += times;
            with_backlog += counted;
        }
        eprintln!("{changes} changes, {with_backlog} of them with a backlog");
        if time.is_none_or(|time| began.elapsed() > time) {
            break;
        }
    }
    // Without a backlog nothing was tested.
    assert!(5 * with_backlog > changes, "{with_backlog} of {changes}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_rates_and_bursts_differ_and_are_of_all_sizes() {
        let drawn: Vec<_> = (0..1_000).map(|_| random_rate_and_burst()).collect();
        let low = drawn
            .iter()
            .filter(|it| it.0.bits_per_second() < 10_000_000);
        let low = low.count();
        assert!((400..600).contains(&low), "{low}");
        let bursts: Vec<u64> = drawn.iter().filter_map(|it| Some(it.1?.bytes())).collect();
        let small = bursts.iter().filter(|bytes| **bytes < 100_000).count();
        assert!((400..600).contains(&bursts.len()) && small.abs_diff(bursts.len() / 2) < 100);
    }
}
