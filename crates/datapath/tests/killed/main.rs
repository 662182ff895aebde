//! A process that is killed while it puts rules in force, or whose kernel refuses something: who
//! comes next ends where an undisturbed one ends, and until then packets meet the old rules or the
//! new ones.
//!
//! The process is this program itself, started again with [`ROUTE`] set, which is why it has a
//! `main` of its own. That happens to it at each [`STRIDE`]th step that may change something outside
//! of it, at others with each hook; with `NETQOS_STRIDE=1` at every one.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod inspections;
mod plans;
mod probes;
mod removals;
mod scene;

use std::fmt;
use std::process::Command;
use std::time::Instant;

use netqos_api::HookChoice;
use netqos_testkit::{Call, Step, Then, stop_here};

use crate::inspections::INSPECTIONS;
use crate::plans::{Facts, Rules};
use crate::removals::REMOVALS;
use crate::scene::{Scene, open, remove, try_to_open, try_to_remove};

/// Which of the tests a process is for.
const TEST: &str = "NETQOS_TEST";
/// What the process does: how, and from where to where.
const ROUTE: &str = "NETQOS_TEST_ROUTE";
const HOOK: &str = "NETQOS_TEST_HOOK";
const PODS: &str = "NETQOS_TEST_PODS";
/// With all steps it takes a quarter of an hour.
const STRIDE: usize = 13;
/// Fewer steps than any way takes.
const FEW: usize = 10;

/// How a process goes from one plan to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// It has put the one in force, and applies the difference.
    Apply,
    /// It starts, and makes the kernel hold the other.
    Start,
    /// It removes everything.
    Remove,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Route {
    way: Way,
    from: Rules,
    to: Rules,
}

/// What happens to a process at a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Killed,
    /// The step is refused.
    Refused,
}

/// Each leads to where the next one begins.
const LIVE: [Route; 4] = [
    route(Way::Apply, Rules::None, Rules::Old),
    route(Way::Apply, Rules::Old, Rules::New),
    route(Way::Apply, Rules::New, Rules::Old),
    route(Way::Apply, Rules::Old, Rules::None),
];
const STARTED: [Route; 5] = [
    route(Way::Start, Rules::Removed, Rules::Old),
    route(Way::Start, Rules::Old, Rules::New),
    route(Way::Start, Rules::New, Rules::None),
    route(Way::Start, Rules::None, Rules::New),
    route(Way::Remove, Rules::New, Rules::Removed),
];

const fn route(way: Way, from: Rules, to: Rules) -> Route {
    Route { way, from, to }
}

fn main() {
    if inspections::take_part() || removals::take_part() {
        return;
    }
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    if !variable(ROUTE).is_empty() {
        let pods = variable(PODS);
        let pods: Vec<Facts> = pods.split(';').map(Facts::parse).collect();
        Route::of(&variable(ROUTE)).follow(hook_of(&variable(HOOK)), &pods);
        return;
    }
    if std::env::args().any(|argument| argument == "--list") {
        return;
    }
    let stride = variable("NETQOS_STRIDE").parse().unwrap_or(STRIDE);
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let is_wanted = |name: &str| {
        let filters: Vec<_> = wanted
            .iter()
            .filter(|word| !word.starts_with('-'))
            .collect();
        filters.is_empty() || filters.iter().any(|filter| name.contains(filter.as_str()))
    };
    let mut running = Vec::new();
    for (name, test) in tests(stride) {
        if variable(TEST) == name {
            test();
        } else if variable(TEST).is_empty() && is_wanted(&name) {
            // A process of its own, since what a process has locked is locked for its children
            // until they are other programs.
            let mut command = Command::new(std::env::current_exe().unwrap());
            running.push(command.env(TEST, &name).spawn().unwrap());
        }
    }
    let ended = running
        .iter_mut()
        .map(|test| test.wait().unwrap().success());
    assert!(!ended.collect::<Vec<_>>().contains(&false));
}

/// All tests, by their names.
fn tests(stride: usize) -> Vec<(String, Box<dyn Fn()>)> {
    let mut tests: Vec<(String, Box<dyn Fn()>)> = Vec::new();
    for hook in ["clsact", "tcx"] {
        let first = if hook == "tcx" { stride / 2 } else { 0 };
        for (routes, fate) in [
            (&LIVE[..], Fate::Killed),
            (&STARTED[..], Fate::Killed),
            (&LIVE[..], Fate::Refused),
            (&STARTED[..], Fate::Refused),
        ] {
            if fate == Fate::Refused && !Call::CAN_FAIL {
                eprintln!("skipped: steps cannot be refused on this architecture");
                continue;
            }
            let name = format!("{hook}, {fate:?}, {:?}", routes[0].way);
            let test = move || at_every_step(hook, routes, fate, (first, stride));
            tests.push((name, Box::new(test)));
        }
    }
    for inspection in INSPECTIONS {
        let test = move || inspection.killed_at_every_step(stride);
        tests.push((inspection.to_string(), Box::new(test)));
    }
    for removal in REMOVALS {
        let test = move || removal.waits_for_programs();
        tests.push((format!("{removal:?}, waits for programs"), Box::new(test)));
    }
    tests
}

fn hook_of(name: &str) -> HookChoice {
    match name {
        "tcx" => HookChoice::Tcx,
        "auto" => HookChoice::Auto,
        _ => HookChoice::Clsact,
    }
}

/// Goes each of these ways, one after the other, disturbed at the first of these steps; and again,
/// disturbed at the next, until none of them has so many.
fn at_every_step(hook: &str, routes: &[Route], fate: Fate, (first, stride): (usize, usize)) {
    let Some(mut scene) = Scene::new(hook_of(hook)) else {
        return;
    };
    let began = Instant::now();
    scene.reach(routes[0].from);
    let mut journeys: Vec<_> = routes.iter().map(|route| Journey::of(*route)).collect();
    let mut nth = first;
    while journeys.iter().any(|journey| !journey.is_over) {
        for journey in &mut journeys {
            if journey.is_over {
                scene.reach(journey.route.to);
            } else {
                journey.go(&mut scene, hook, fate, nth);
            }
        }
        nth += stride;
    }
    let took = began.elapsed();
    let moments: usize = journeys.iter().map(|journey| journey.moments).sum();
    println!("{hook}, {fate:?}: {moments} moments in {took:.1?}");
    for journey in journeys {
        println!(
            "{hook}, {fate:?}: {}: {} moments",
            journey.route, journey.moments
        );
        assert!(
            journey.moments * stride > FEW,
            "the process was not followed"
        );
        // Who starts looks twice for what is to go: a step that is refused once changes nothing.
        let goes_on = fate == Fate::Refused && journey.route.way == Way::Start;
        assert!(
            (journey.met_old || goes_on) && journey.met_new,
            "{}: it was always too early or too late",
            journey.route
        );
    }
    scene.reach(Rules::Removed);
    scene.assert_is_whole(Rules::Removed, "at the end");
}

/// A way that is gone again and again.
struct Journey {
    route: Route,
    moments: usize,
    /// The process came to its end.
    is_over: bool,
    /// Packets met the rules of before, and those of afterwards, where they differ.
    met_old: bool,
    met_new: bool,
}

impl Journey {
    fn of(route: Route) -> Self {
        Self {
            route,
            moments: 0,
            is_over: false,
            met_old: false,
            met_new: false,
        }
    }

    /// Goes the way, disturbed at its `nth` step, and lets a fresh process go the rest.
    fn go(&mut self, scene: &mut Scene, hook: &str, fate: Fate, nth: usize) {
        let Route { way, from, to } = self.route;
        let what = format!("{hook}, {}, {fate:?} at step {nth}", self.route);
        let stayed = scene.stayed();
        let pods: Vec<_> = scene.facts.iter().map(ToString::to_string).collect();
        let (mut steps, mut disturbed_at, mut marks) = (0, None, None);
        let outcome = Call::bare(std::env::current_exe().unwrap(), "")
            .variable(ROUTE, &self.route.to_string())
            .variable(HOOK, hook)
            .variable(PODS, &pods.join(";"))
            .step_by_step(|step| {
                if step == Step::Stop {
                    marks = Some(scene.marks());
                }
                // It has come to its end, and mends from then on what is to be mended.
                if marks.is_some() || (fate == Fate::Refused && is_unimportant(step)) {
                    return Then::Go;
                }
                steps += 1;
                if steps != nth + 1 {
                    return Then::Go;
                }
                disturbed_at = Some(step);
                match fate {
                    Fate::Killed => Then::Kill,
                    Fate::Refused => Then::Fail(libc::ENOMEM),
                }
            })
            .unwrap();
        let what = format!("{what} ({disturbed_at:?})");
        match disturbed_at {
            Some(_) => self.moments += 1,
            None => self.is_over = true,
        }
        let is_right = match (fate, disturbed_at) {
            (Fate::Killed, Some(_)) => outcome.code.is_none(),
            _ => outcome.code == Some(0),
        };
        assert!(is_right, "{what}: {}\n{}", outcome.stdout, outcome.stderr);
        // Who starts also asks the kernel what it can, which need not be told.
        if fate == Fate::Refused && disturbed_at.is_some() && way != Way::Start {
            assert_ne!(outcome.stdout.trim(), "", "{what}: nothing was reported");
        }
        let (old, new) = (scene.wanted(from), scene.wanted(to));
        let others = [scene.between(from, to), scene.between(to, from)];
        for (probe, mark) in marks.unwrap_or_else(|| scene.marks()) {
            let right = [&old, &new, &others[0], &others[1]].map(|marks| marks[&probe]);
            assert!(
                right.contains(&mark),
                "{what}: {probe:?} met {mark:?} and not one of {right:?}\n{}",
                outcome.stdout
            );
            self.met_old |= mark != new[&probe];
            self.met_new |= mark != old[&probe];
        }
        if way == Way::Remove {
            if fate == Fate::Refused {
                scene.assert_is_whole(to, &what);
            }
            // Who starts on what is left of it gets everything back.
            scene.reach(from);
            scene.assert_is_whole(from, &what);
        }
        let changes = scene.reach(to);
        // It has mended by itself what was refused.
        assert!(fate == Fate::Killed || changes == 0, "{what}: {changes}");
        let is_there = |rules| matches!(rules, Rules::Old | Rules::New);
        if way != Way::Remove && is_there(from) && is_there(to) {
            let counted = scene.stayed() - stayed;
            assert_eq!(counted, scene.counted_by_stays(), "{what}: counters");
        }
        scene.assert_is_whole(to, &what);
        assert_eq!(scene.reach(to), 0, "{what}: changed a second time");
    }
}

/// True for a file that is written: among them is one that switches something off on a queue
/// which does no harm. And for waiting, which is done in another way then.
fn is_unimportant(step: Step) -> bool {
    let Step::Call { number, .. } = step else {
        return false;
    };
    [libc::SYS_openat, libc::SYS_write, libc::SYS_membarrier].contains(&number)
}

impl Route {
    /// What `Display` has written.
    fn of(text: &str) -> Self {
        let all = LIVE.iter().chain(&STARTED);
        let mut named = all.filter(|route| route.to_string() == text);
        *named.next().unwrap()
    }

    /// What the process does that is killed, or refused something: it says so, and does it once
    /// more.
    fn follow(self, hook: HookChoice, pods: &[Facts]) {
        let (from, to) = (self.from.plan(pods), self.to.plan(pods));
        let mut said: Vec<String> = Vec::new();
        let mut datapath = match self.way {
            Way::Apply => {
                let mut datapath = open(hook);
                let outcome = datapath.sync(&from);
                assert_eq!((outcome.problems, outcome.changes), (vec![], 0));
                stop_here().unwrap();
                let outcome = datapath.apply(&to, &from.delta_to(&to));
                said.extend(outcome.problems.iter().map(ToString::to_string));
                datapath
            }
            Way::Start => {
                stop_here().unwrap();
                let mut datapath = try_to_open(hook).unwrap_or_else(|why| {
                    said.push(why.to_string());
                    open(hook)
                });
                let outcome = datapath.sync(&to);
                said.extend(outcome.problems.iter().map(ToString::to_string));
                datapath
            }
            Way::Remove => {
                stop_here().unwrap();
                if let Err(why) = try_to_remove() {
                    println!("{why}");
                }
                stop_here().unwrap();
                return remove();
            }
        };
        let outcome = datapath.finish(&to);
        said.extend(outcome.problems.iter().map(ToString::to_string));
        said.extend(datapath.tidy().err().map(|why| why.to_string()));
        println!("{}", said.join("\n"));
        stop_here().unwrap();
        let outcome = datapath.sync(&to);
        assert_eq!(outcome.problems, []);
        if self.way == Way::Start && said.is_empty() {
            assert_eq!(outcome.changes, 0, "something was refused, and not told");
        }
        datapath.tidy().unwrap();
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} from {} to {}", self.way, self.from, self.to)
    }
}
