//! What share of its rate TCP gets through a rule, over ways of different length.
//!
//! The bench measures its table of rates by it.

use std::fmt;
use std::time::Duration;

use netqos_api::HookChoice;
use netqos_core::Rule;
use netqos_index::Change;
use netqos_traffic::TcpTest;

use super::{TCP_SHARE, World, limiting, policy};
use crate::DelayLine;

/// How long packets are under way, and which pod is so far away.
pub const WAYS: [(Duration, &str); 3] = [
    (Duration::ZERO, "near"),
    (Duration::from_millis(2), "metro"),
    (Duration::from_millis(20), "abroad"),
];
pub const CONTROLS: [&str; 2] = ["cubic", "bbr"];

/// One thing to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// The rule's rate, in Mbit/s.
    pub megabits: u64,
    /// An index of [`WAYS`].
    pub way: usize,
    pub control: &'static str,
}

/// A pod under a rule, and servers at each distance.
pub struct Ways {
    pub world: World,
    _lines: Vec<DelayLine>,
}

impl Case {
    /// All of these rates, over each way, with each congestion control.
    pub fn all(rates: &[u64]) -> impl Iterator<Item = Self> + use<'_> {
        rates.iter().flat_map(|&megabits| {
            (0..WAYS.len()).flat_map(move |way| {
                CONTROLS.map(|control| Self {
                    megabits,
                    way,
                    control,
                })
            })
        })
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = match WAYS[self.way].0 {
            Duration::ZERO => "0.05 ms".to_owned(),
            way => format!("{} ms", way.as_millis()),
        };
        write!(f, "{} Mbit/s | {way} | {}", self.megabits, self.control)
    }
}

impl Ways {
    /// `None` when it has to be skipped.
    pub fn new(hook: HookChoice) -> Option<Self> {
        Some(Self::of(World::new(hook)?))
    }

    /// The same on a node with what there is already.
    pub fn of(mut world: World) -> Self {
        world.pod("sender", "player");
        let mut lines = Vec::new();
        for (round_trip, name) in WAYS {
            if round_trip.is_zero() {
                world.pod(name, "server");
            } else {
                let (pod, line) = world.node.far_pod(name, round_trip / 2).unwrap();
                world.add_server(pod);
                lines.push(line);
            }
        }
        Self {
            world,
            _lines: lines,
        }
    }

    /// Holds the pod to this rule.
    pub fn rule(&mut self, rule: Rule) {
        let policy = policy("p", 1, "player", vec![rule]);
        self.world.apply(Change::Policy(policy));
    }

    /// TCP goodput for this long, of what the rule's rate can carry.
    pub fn share(&mut self, case: Case, seconds: f64) -> f64 {
        self.rule(limiting(case.megabits));
        let round_trip = WAYS[case.way].0;
        let test = TcpTest {
            // TCP's start, and what it put in the queue then.
            omit: Duration::from_millis(700) + 40 * round_trip,
            congestion_control: Some(case.control.to_owned()),
            ..self.world.tcp_test(WAYS[case.way].1, seconds)
        };
        let report = self.world.run("sender", || test.run(|_| ()).unwrap());
        let rate = report.goodput.rate.bits_per_second() as f64;
        rate / (case.megabits as f64 * 1e6 * TCP_SHARE)
    }
}
