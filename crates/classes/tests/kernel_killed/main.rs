//! A process that is killed while it divides a line, changes how that is divided, or gives it up: who
//! comes next ends where an undisturbed one ends, and changes nothing after that.
//!
//! The process is this program itself, started again with [`ROUTE`] set, which is why it has a `main` of
//! its own. That happens to it before each [`STRIDE`]th of its steps that may change something outside of
//! it; with `NETQOS_STRIDE=1` before every one.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a panic is how a test fails"
)]

#[path = "../kernel/world.rs"]
#[allow(dead_code, reason = "others make more of it")]
mod world;

use std::collections::BTreeMap;

use netqos_classes::{ClassBackend, Kernel, Outcome, Standing};
use netqos_core::classes::{ClassPlan, LineShares};
use netqos_testkit::{Call, Step, Then, stop_here};

use crate::world::{BE, LS, SYSTEM, World, classed, divided, options, shares};

/// What the process does: from where to where.
const ROUTE: &str = "NETQOS_TEST_ROUTE";
/// The pods and the line that it does it to.
const FACTS: &str = "NETQOS_TEST_FACTS";
const STRIDE: usize = 3;
/// Fewer steps than any way takes.
const FEW: usize = 5;

/// How the line is to be divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    /// Nothing of ours is there.
    Removed,
    Old,
    New,
}

const ROUTES: [(&str, Plan, Plan); 4] = [
    ("divide", Plan::Removed, Plan::Old),
    ("change", Plan::Old, Plan::New),
    ("change back", Plan::New, Plan::Old),
    ("give up", Plan::Old, Plan::Removed),
];

fn main() {
    if let Ok(route) = std::env::var(ROUTE) {
        let (_, from, to) = ROUTES
            .into_iter()
            .find(|(name, ..)| *name == route)
            .unwrap();
        let facts = std::env::var(FACTS).unwrap();
        let mut backend = Kernel::open(options()).unwrap();
        go(&mut backend, from, &facts);
        stop_here().unwrap();
        go(&mut backend, to, &facts);
        return;
    }
    if std::env::args().any(|argument| argument == "--list") {
        return;
    }
    for (name, from, to) in ROUTES {
        let killed = std::thread::spawn(move || killed_at_each_step(name, from, to));
        killed.join().unwrap();
    }
}

/// Three pods, and the line, for another process to find.
fn facts(world: &World) -> String {
    let pod = |(name, pod): (&&str, &netqos_testkit::Pod)| {
        let [v4, v6] = [pod.address(), pod.address6()];
        format!(" {name} {} {v4} {v6}", pod.host_link())
    };
    let pods: String = world.pods.iter().map(pod).collect();
    format!("{}{pods}", world.line())
}

/// The same pods, asking for more or less.
fn plan(plan: Plan, facts: &str) -> ClassPlan {
    let mut words = facts.split(' ');
    let line = words.next().unwrap();
    let words: Vec<&str> = words.collect();
    let mut pods = BTreeMap::new();
    for pod in words.chunks(4) {
        let class = [("sys", SYSTEM), ("ls", LS), ("be", BE)];
        let class = class
            .into_iter()
            .find(|(name, _)| *name == pod[0])
            .unwrap()
            .1;
        // Of the new plan the one pod is no more, and the other is of another class.
        let class = match (plan, pod[0]) {
            (Plan::New, "sys") => continue,
            (Plan::New, "be") => LS,
            _ => class,
        };
        let mut of = classed(pod[0], class, Default::default());
        of.place.addresses = pod[2..].iter().map(|text| text.parse().unwrap()).collect();
        of.place.host_links = [pod[1].into()].into();
        if pod[0] == "be" {
            of.asked.egress.min = world::mbit(10);
            of.asked.ingress.max = Some(world::mbit(20));
        }
        pods.insert(pod[0].into(), of);
    }
    let shares: LineShares = match plan {
        Plan::New => divided(100, [50, 80], [10, 100]),
        _ => shares(100),
    };
    ClassPlan {
        lines: [(line.into(), shares)].into(),
        pods,
    }
}

fn go(backend: &mut Kernel, to: Plan, facts: &str) -> Outcome {
    if to == Plan::Removed {
        backend.teardown().unwrap();
        return Outcome::default();
    }
    let outcome = backend.apply(&plan(to, facts)).unwrap();
    assert_eq!(outcome.troubles, [], "{outcome:?}");
    outcome
}

fn standing() -> BTreeMap<std::sync::Arc<str>, Standing> {
    Kernel::open(options()).unwrap().standing().unwrap()
}

fn killed_at_each_step(name: &str, from: Plan, to: Plan) {
    let Some(world) = World::new() else {
        return;
    };
    let facts = facts(&world);
    let pods: Vec<_> = world.pods.values().collect();
    let before = world.node.state(&pods).unwrap();
    let mut undisturbed = Kernel::open(options()).unwrap();
    go(&mut undisturbed, to, &facts);
    let expected = standing();
    let stride = std::env::var("NETQOS_STRIDE")
        .ok()
        .and_then(|text| text.parse().ok());
    for nth in (0..).step_by(stride.unwrap_or(STRIDE)) {
        go(&mut Kernel::open(options()).unwrap(), from, &facts);
        let mut steps = 0;
        let call = Call::bare(std::env::current_exe().unwrap(), "")
            .variable(ROUTE, name)
            .variable(FACTS, &facts);
        let outcome = call.step_by_step(|step| match step {
            Step::Call { .. } if steps == nth => Then::Kill,
            Step::Call { .. } => {
                steps += 1;
                Then::Go
            }
            Step::Stop => Then::Go,
        });
        if outcome.unwrap().code == Some(0) {
            assert!(nth > FEW, "{name}: {nth}");
            eprintln!("{name}: {nth} moments");
            break;
        }
        let mut next = Kernel::open(options()).unwrap();
        go(&mut next, to, &facts);
        assert_eq!(standing(), expected, "{name} at {nth}");
        if to == Plan::Removed {
            world
                .node
                .state(&pods)
                .unwrap()
                .assert_is(&before, format!("{name} at {nth}"));
        } else {
            assert_eq!(go(&mut next, to, &facts).changes, 0, "{name} at {nth}");
        }
    }
    go(&mut Kernel::open(options()).unwrap(), Plan::Removed, &facts);
    world.node.state(&pods).unwrap().assert_is(&before, name);
}
