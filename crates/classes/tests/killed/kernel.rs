//! A process that is killed while it divides two lines, changes how they are divided, or gives up one or
//! both: who comes next ends where an undisturbed one ends, has left what was right as it was, and changes
//! nothing after that.
//!
//! That happens to it before each [`STRIDE`]th of its steps that may change something outside of it; with
//! `NETQOS_STRIDE=1` before every one.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use netqos_classes::{ClassBackend, Kernel, KernelOptions, Outcome, Standing};
use netqos_core::classes::{ClassPlan, LineShares};
use netqos_netlink::Socket;
use netqos_testkit::classes::{BE, LS, SYSTEM, World, classed, divided, mbit, options, shares};
use netqos_testkit::{Call, Pod, Step, Then, stop_here};
use netqos_traffic::Server;

/// What the process does: from where to where.
const ROUTE: &str = "NETQOS_TEST_ROUTE";
/// The pods and the lines that it does it to.
const FACTS: &str = "NETQOS_TEST_FACTS";
const STRIDE: usize = 3;
/// Fewer steps than any way takes.
const FEW: usize = 5;

/// How the lines are to be divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    /// Nothing of ours is there.
    Removed,
    Old,
    New,
    /// As the old one, and only the first line.
    One,
}

const ROUTES: [(&str, Plan, Plan); 6] = [
    ("divide", Plan::Removed, Plan::Old),
    ("change", Plan::Old, Plan::New),
    ("change back", Plan::New, Plan::Old),
    ("give one up", Plan::Old, Plan::One),
    ("take it up", Plan::One, Plan::Old),
    ("give up", Plan::Old, Plan::Removed),
];

/// Does what the process does that is killed; false where this one is not.
pub fn take_part() -> bool {
    let Ok(facts) = std::env::var(FACTS) else {
        return false;
    };
    let route = std::env::var(ROUTE).unwrap();
    let (_, from, to) = ROUTES
        .into_iter()
        .find(|(name, ..)| *name == route)
        .unwrap();
    let mut backend = Kernel::open(options()).unwrap();
    go(&mut backend, from, &facts);
    stop_here().unwrap();
    go(&mut backend, to, &facts);
    true
}

pub fn killed_anywhere() {
    for (name, from, to) in ROUTES {
        let killed = std::thread::spawn(move || killed_at_each_step(name, from, to));
        killed.join().unwrap();
    }
}

/// A second line, to a machine that is asked by it.
struct Second {
    pod: Pod,
    server: Server,
}

impl Second {
    fn new(world: &World) -> Self {
        let pod = world.node.pod("second").unwrap();
        let any: SocketAddr = "[::]:0".parse().unwrap();
        let server = pod.inside(|| Server::bind(any)).unwrap().unwrap();
        Self { pod, server }
    }

    fn is_reached(&self) -> bool {
        let port = self.server.local_addr().port();
        let address = SocketAddr::new(self.pod.address().parse().unwrap(), port);
        TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok()
    }
}

/// What has gone through a tree, and the number of its link.
type Tree = (u32, u64);

/// Both trees of each line that is divided, of these.
fn trees(lines: &[Arc<str>]) -> BTreeMap<String, Tree> {
    let mut socket = Socket::open().unwrap();
    let mut found = BTreeMap::new();
    for line in lines {
        let index = socket.link_by_name(line).unwrap().index;
        for name in [line.to_string(), format!("netqos-l{index}")] {
            let Ok(link) = socket.link_by_name(&name) else {
                continue;
            };
            let classes = socket.classes(&link).unwrap();
            let whole = classes.iter().find(|class| class.handle.minor() == 1);
            if let Some(whole) = whole {
                found.insert(name, (link.index, whole.statistics.bytes));
            }
        }
    }
    found
}

/// Three pods, and the lines, for another process to find.
fn facts(world: &World, second: &Second) -> String {
    let pod = |(name, pod): (&&str, &netqos_testkit::Pod)| {
        let [v4, v6] = [pod.address(), pod.address6()];
        format!(" {name} {} {v4} {v6}", pod.host_link())
    };
    let pods: String = world.pods.iter().map(pod).collect();
    format!("{} {}{pods}", world.line(), second.pod.host_link())
}

/// The same pods, asking for more or less.
fn plan(plan: Plan, facts: &str) -> ClassPlan {
    let mut words = facts.split(' ');
    let lines = [words.next().unwrap(), words.next().unwrap()];
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
            of.asked.egress.min = mbit(10);
            of.asked.ingress.max = Some(mbit(20));
        }
        pods.insert(pod[0].into(), of);
    }
    let shares: [LineShares; 2] = match plan {
        Plan::New => [
            divided(100, [50, 80], [10, 100]),
            divided(60, [20, 100], [40, 50]),
        ],
        _ => [shares(100), shares(40)],
    };
    let lines = lines.into_iter().zip(shares);
    let many = if plan == Plan::One { 1 } else { 2 };
    ClassPlan {
        lines: lines
            .take(many)
            .map(|(line, of)| (line.into(), of))
            .collect(),
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

fn standing() -> BTreeMap<Arc<str>, Standing> {
    Kernel::open(options()).unwrap().standing().unwrap()
}

fn killed_at_each_step(name: &str, from: Plan, to: Plan) {
    let Some(world) = World::new() else {
        return;
    };
    let second = Second::new(&world);
    let facts = facts(&world, &second);
    let pods: Vec<_> = world.pods.values().collect();
    let stay: Vec<Arc<str>> = match (from, to) {
        (Plan::Removed, _) | (_, Plan::Removed) => Vec::new(),
        (Plan::One, _) | (_, Plan::One) => vec![world.line()],
        _ => vec![world.line(), second.pod.host_link().into()],
    };
    let before = world.node.state(&pods).unwrap();
    let mut undisturbed = Kernel::open(options()).unwrap();
    go(&mut undisturbed, to, &facts);
    let expected = standing();
    let stride = std::env::var("NETQOS_STRIDE")
        .ok()
        .and_then(|text| text.parse().ok());
    for nth in (0..).step_by(stride.unwrap_or(STRIDE)) {
        let counting = KernelOptions {
            divides_idle_lines: true,
            ..options()
        };
        go(&mut Kernel::open(counting).unwrap(), from, &facts);
        // Something that is counted: who makes a tree anew counts from the beginning.
        assert!(world.is_reached() && second.is_reached());
        let were = trees(&stay);
        assert_eq!(were.len(), stay.len() * 2);
        assert!(were.values().all(|(_, bytes)| *bytes > 0), "{were:?}");
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
        let are = trees(&stay);
        for (link, (index, bytes)) in were {
            let (same, more) = are[&link];
            assert_eq!(same, index, "{name} at {nth}: {link} was made anew");
            assert!(
                more >= bytes,
                "{name} at {nth}: {more} of {bytes} on {link}"
            );
        }
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
