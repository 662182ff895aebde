//! An agent that is killed at any step: the next one ends where an undisturbed one ends, and one
//! that is started after that finds nothing to change.
//!
//! The agent that is killed is this program itself, started again with [`WAY`] set, which is why it
//! has a `main` of its own. Those that follow are the executable. It is killed before each
//! [`STRIDE`]th step that may change something outside of it; with `NETQOS_STRIDE=1` before every
//! one.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a panic is how a test fails"
)]
#![forbid(unsafe_code)]

mod scene;
mod victim;

use std::process::Command;
use std::time::Instant;

use netqos_testkit::agent::stage;
use netqos_testkit::rules::state;

use crate::scene::{End, Says, Scene};

/// Which of the tests a process is for.
const TEST: &str = "NETQOS_TEST";
/// What the agent does that is killed.
const WAY: &str = "NETQOS_TEST_WAY";
/// With all steps it takes two minutes.
const STRIDE: usize = 5;
/// How many processes share the steps of a way: most of the time they wait for an agent.
const PARTS: usize = 3;
/// Fewer steps than any way takes.
const FEW: usize = 30;

/// How an agent gets to know what the folder says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// It starts, and finds it.
    Starts,
    /// It has run for a while, and the folder changes.
    Hears,
}

const WAYS: [Way; 2] = [Way::Starts, Way::Hears];

fn main() {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let way_of = |name: &str| WAYS.into_iter().find(|way| format!("{way:?}") == name);
    if let Some(way) = way_of(&variable(WAY)) {
        return victim::run(way);
    }
    if std::env::args().any(|argument| argument == "--list") {
        return;
    }
    let stride = variable("NETQOS_STRIDE").parse().unwrap_or(STRIDE);
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let is_wanted = |name: &str| {
        let mut filters = wanted.iter().filter(|word| !word.starts_with('-'));
        let any = filters.clone().next().is_some();
        !any || filters.any(|filter| name.contains(filter.as_str()))
    };
    let mut running = Vec::new();
    for way in WAYS {
        for part in 0..PARTS {
            let name = format!("{way:?} {part}");
            if variable(TEST) == name {
                killed_at_any_step(way, part * stride, PARTS * stride);
            } else if variable(TEST).is_empty() && is_wanted(&name) {
                // A node of its own is a process of its own.
                let mut command = Command::new(std::env::current_exe().unwrap());
                running.push(command.env(TEST, &name).spawn().unwrap());
            }
        }
    }
    let ended = running
        .iter_mut()
        .map(|test| test.wait().unwrap().success());
    assert!(!ended.collect::<Vec<_>>().contains(&false));
}

/// Lets agents make all and remove all, one after the other, killed at the first of these steps; and
/// again, killed at the next, until neither has so many.
fn killed_at_any_step(way: Way, first: usize, stride: usize) {
    let Some(scene) = Scene::new() else { return };
    let began = Instant::now();
    let mut journeys = [Says::Something, Says::Nothing].map(Journey::to);
    let mut nth = first;
    while journeys.iter().any(|journey| journey.steps.is_none()) {
        for journey in &mut journeys {
            journey.go(&scene, way, nth);
        }
        nth += stride;
    }
    let took = began.elapsed();
    for Journey {
        says,
        moments,
        halfway,
        steps,
    } in journeys
    {
        let steps = steps.unwrap();
        println!("{way:?}, {says:?}: {moments} of {steps} steps, {halfway} halfway, {took:.1?}");
        assert!(steps > FEW, "the agent was not followed");
        let looked_halfway = moments < 3 || halfway > 0;
        assert!(looked_halfway, "it was always too early or too late");
    }
}

/// A way that is gone again and again.
struct Journey {
    says: Says,
    moments: usize,
    /// How often the node was neither as before nor as afterwards.
    halfway: usize,
    /// How many steps it is, once an agent came to its end.
    steps: Option<usize>,
}

impl Journey {
    fn to(says: Says) -> Self {
        Self {
            says,
            moments: 0,
            halfway: 0,
            steps: None,
        }
    }

    /// Lets an agent go the way that is killed before its `nth` step, and others go on from there.
    fn go(&mut self, scene: &Scene, way: Way, nth: usize) {
        if self.steps.is_some() {
            scene.say(self.says);
        } else {
            match scene.go(way, self.says, nth) {
                End::Killed => {
                    self.moments += 1;
                    self.halfway += usize::from(scene.is_halfway());
                }
                End::Came { steps } => self.steps = Some(steps),
            }
        }
        let what = format!("{way:?}, {:?}, killed before step {nth}", self.says);
        scene.assert_becomes(self.says, &what);
    }
}
