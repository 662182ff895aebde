//! The third promise: whatever ended an earlier call, the next `apply` or `teardown` of this process or
//! another one ends in the state that it would have ended in.
//!
//! A process is killed before each step that may change something outside of it.

use std::path::{Path, PathBuf};

use netqos_classes::ClassBackend;
use netqos_core::classes::ClassPlan;
use netqos_testkit::classes::plans;
use netqos_testkit::classes::worlds::{self, World, enter};
use netqos_testkit::{Call, Then, stop_here};

/// What the process does, of which backend, and where its world is.
const ROUTE: &str = "NETQOS_TEST_ROUTE";
const BACKEND: &str = "NETQOS_TEST_BACKEND";
const PLACE: &str = "NETQOS_TEST_PLACE";

/// What a process is killed at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    FirstTime,
    ToOthers,
    ToFewer,
    Teardown,
}

impl Route {
    const ALL: [Self; 4] = [
        Self::FirstTime,
        Self::ToOthers,
        Self::ToFewer,
        Self::Teardown,
    ];

    /// What is in force before.
    fn from(self) -> Option<ClassPlan> {
        match self {
            Self::FirstTime => None,
            Self::ToOthers | Self::ToFewer => Some(plans::old()),
            Self::Teardown => Some(plans::new()),
        }
    }

    /// What is to be in force afterwards.
    fn to(self) -> Option<ClassPlan> {
        match self {
            Self::FirstTime => Some(plans::old()),
            Self::ToOthers => Some(plans::new()),
            Self::ToFewer => Some(plans::little()),
            Self::Teardown => None,
        }
    }
}

/// What a backend's process needs to know of its world.
trait Killed: World {
    const NAME: &str;

    fn place(&self) -> &Path;
    fn backend_at(place: &Path) -> Box<dyn ClassBackend>;
}

impl Killed for worlds::Tc {
    const NAME: &str = "tc";

    fn place(&self) -> &Path {
        self.net_cls()
    }

    fn backend_at(place: &Path) -> Box<dyn ClassBackend> {
        Self::backend_at(place)
    }
}

impl Killed for worlds::TerwayQos {
    const NAME: &str = "terway-qos";

    fn place(&self) -> &Path {
        Path::new("/")
    }

    fn backend_at(_: &Path) -> Box<dyn ClassBackend> {
        Box::new(netqos_classes::TerwayQos::default())
    }
}

/// Does what the process does that is killed; false where this one is not.
pub fn take_part() -> bool {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let place = PathBuf::from(variable(PLACE));
    let mut backend = match &*variable(BACKEND) {
        "" => return false,
        worlds::Tc::NAME => <worlds::Tc as Killed>::backend_at(&place),
        _ => <worlds::TerwayQos as Killed>::backend_at(&place),
    };
    let is_named = |route: &Route| format!("{route:?}") == variable(ROUTE);
    let route = Route::ALL.into_iter().find(is_named).unwrap();
    stop_here().unwrap();
    reach(&mut *backend, route.to().as_ref());
    true
}

pub fn killed_anywhere() {
    backend_killed_anywhere::<worlds::Tc>();
    backend_killed_anywhere::<worlds::TerwayQos>();
}

/// Makes this the state: what a plan says, or nothing.
fn reach(backend: &mut dyn ClassBackend, to: Option<&ClassPlan>) {
    match to {
        Some(plan) => {
            let outcome = backend.apply(plan).unwrap();
            assert_eq!(outcome.lines.len(), plan.lines.len(), "{outcome:#?}");
        }
        None => backend.teardown().unwrap(),
    }
}

fn backend_killed_anywhere<W: Killed>() {
    // A thread of its own, which is the node from then on.
    let thread = std::thread::spawn(|| {
        let Some(world) = enter::<W>() else { return };
        world.neighbours();
        let empty = world.state();
        for route in Route::ALL {
            let steps = killed_at_each_step(&world, route, &empty);
            println!("{}, {route:?}: killed at {steps} steps", W::NAME);
            assert!(steps > 3, "{}, {route:?}: it was not followed", W::NAME);
        }
    });
    thread.join().unwrap();
}

/// How many steps there were.
fn killed_at_each_step<W: Killed>(world: &W, route: Route, empty: &str) -> usize {
    for nth in 0.. {
        let what = format!("{}, {route:?}, killed at step {nth}", W::NAME);
        reach(&mut *world.backend(), route.from().as_ref());
        let mut steps = 0;
        let outcome = Call::bare(std::env::current_exe().unwrap(), "")
            .variable(ROUTE, &format!("{route:?}"))
            .variable(BACKEND, W::NAME)
            .variable(PLACE, &world.place().display().to_string())
            .variable("PATH", &std::env::var("PATH").unwrap())
            .step_by_step(|_| {
                steps += 1;
                if steps > nth { Then::Kill } else { Then::Go }
            })
            .unwrap();
        let was_killed = steps > nth;
        let is_right = outcome.code == if was_killed { None } else { Some(0) };
        assert!(is_right, "{what}: {}\n{}", outcome.stdout, outcome.stderr);
        let mut backend = world.backend();
        reach(&mut *backend, route.to().as_ref());
        match route.to() {
            Some(plan) => {
                assert_eq!(backend.standing().unwrap(), world.expected(&plan), "{what}");
                // Nothing was left to do, and nothing is left over.
                assert_eq!(backend.apply(&plan).unwrap().changes, 0, "{what}");
            }
            None => assert_eq!(world.state(), *empty, "{what}"),
        }
        world.backend().teardown().unwrap();
        assert_eq!(world.state(), *empty, "{what}");
        if !was_killed {
            return nth;
        }
    }
    unreachable!()
}
