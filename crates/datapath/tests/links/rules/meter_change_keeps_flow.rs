use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

use netqos_api::HookChoice;
use netqos_core::{Bandwidth, BitRate, ByteCount, Reason, Rule};
use netqos_index::Change;
use netqos_netlink::qdisc::Statistics;
use netqos_netlink::{Handle, Socket};
use netqos_testkit::random_changes::{
    ChangedQueue, assert_random_changes_keep_flow, random_rate_and_burst, run_cases,
};
use netqos_testkit::rules::{HOOKS, World, is_there, mbit, on_both_hooks, policy};
use netqos_testkit::{Bulk, assert_progress, has_big_tcp, time_of_progress, wait_for_backlog};
use netqos_traffic::{Flow, TcpTest};

/// The backlog before a change, in bytes, and the longest wait for it.
const WAITS: u32 = 70_000;
const FILLS: Duration = Duration::from_millis(700);

fn rule(megabits: u64, burst: Option<u64>) -> Change {
    rated(Bandwidth {
        rate: mbit(megabits),
        burst: burst.map(ByteCount::from_bytes),
    })
}

fn rated(bandwidth: Bandwidth) -> Change {
    let rule = Rule {
        bandwidth: Some(bandwidth),
        ..netqos_testkit::rules::rule()
    };
    Change::Policy(policy("p", 1, "player", vec![rule]))
}

/// The counters and the backlog of the only queue of a rule.
fn statistics() -> Statistics {
    queue_statistics().unwrap()
}

/// The same, or `None` if no rule has a queue.
fn queue_statistics() -> Option<Statistics> {
    let mut socket = Socket::open().unwrap();
    let links = socket.links().unwrap();
    // The alias of the other end also has the rule's name.
    let is_first = |alias: &str| alias.starts_with("netqos:rule:") && !alias.contains(' ');
    let is_queue = |link: &&netqos_netlink::link::Link| link.alias.as_deref().is_some_and(is_first);
    let queue = links.iter().find(is_queue)?;
    let root = socket.qdisc_at(queue, Handle::ROOT).unwrap().unwrap();
    Some(root.statistics)
}

#[test]
fn lowered_rate_or_burst_never_stalls_queue() {
    on_both_hooks(|hook| {
        let Some(mut world) = World::new(hook) else {
            return;
        };
        world.pod("free", "player");
        world.pod("gateway", "gateway");
        world.apply(rule(200, Some(500_000)));
        let test = world.tcp_test("gateway", 4.5);
        let _bulk = Bulk::start(world.pod_named("free").netns(), move || {
            drop(test.run(|_| ()));
        })
        .unwrap();
        let mut with_backlog = 0;
        for (megabits, burst) in [
            (10, None),
            (200, None),
            (10, Some(500_000)),
            (200, Some(500_000)),
            (10, None),
            (200, None),
            (2, None),
        ] {
            let began = Instant::now();
            while began.elapsed() < FILLS && statistics().queued_bytes < WAITS {
                thread::sleep(Duration::from_millis(1));
            }
            with_backlog += usize::from(statistics().queued_packets > 0);
            world.apply(rule(megabits, burst));
            let within = time_of_progress(mbit(megabits));
            let situation = || format!("{hook:?}, {megabits} Mbit/s, burst {burst:?}");
            assert_progress(within, statistics, situation);
        }
        // Without a backlog nothing was tested.
        assert!(with_backlog > 3, "{with_backlog}");
        world.apply(rule(100, None));
    });
}

/// At the lower rate, the burst takes 20 s.
#[test]
fn used_burst_does_not_stop_flow_of_rule_after_change() {
    on_both_hooks(|hook| {
        let Some(mut world) = World::new(hook) else {
            return;
        };
        world.pod("free", "player");
        world.pod("gateway", "gateway");
        let lost = |world: &World, megabits| {
            let report = world.udp("free", "gateway", mbit(megabits));
            report.lost as f64 / report.sent as f64
        };
        world.apply(rule(1, Some(2_500_000)));
        assert!(lost(&world, 50) > 0.2);
        world.apply(rule(10, None));
        let lost = lost(&world, 5);
        assert!(lost < 0.1, "{hook:?}: {lost} lost");
    });
}

/// The traffic and the hook of a series of changes.
struct Case {
    hook: HookChoice,
    congestion_control: &'static str,
    gso: u32,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            hook,
            congestion_control,
            gso,
        } = self;
        write!(f, "{hook:?}, {congestion_control}, GSO of {gso} bytes")
    }
}

/// A node with a rule that has a rate.
struct RatedRule(World);

impl ChangedQueue for RatedRule {
    type Change = Bandwidth;

    fn change(&mut self, bandwidth: &Bandwidth) -> BitRate {
        let outcome = self.0.try_apply(rated(*bandwidth));
        let mut problems = outcome.problems.iter();
        // Random bursts may be too small.
        let is_expected = problems.all(|problem| problem.reason == Reason::BurstRaised);
        assert!(is_expected, "{:#?}", outcome.problems);
        // The queue may be a new one.
        wait_for_backlog(|| self.statistics().is_some_and(|it| it.queued_packets > 0));
        bandwidth.rate
    }

    fn statistics(&self) -> Option<Statistics> {
        queue_statistics()
    }
}

/// The default size of GSO, and one of BIG TCP.
#[test]
fn random_rule_change_never_stalls_queue() {
    let mut cases = Vec::new();
    for hook in HOOKS.into_iter().filter(is_there) {
        for congestion_control in ["cubic", "bbr"] {
            let sizes = [65_536, 196_608].into_iter();
            let sizes = sizes.filter(|gso| *gso == 65_536 || has_big_tcp());
            cases.extend(sizes.map(|gso| Case {
                hook,
                congestion_control,
                gso,
            }));
        }
    }
    run_cases(&cases, 1, 8, |case, times| {
        // A node is a thread's.
        thread::scope(|scope| scope.spawn(|| keeps_flow(case, times)).join().unwrap())
    });
}

/// Changes a rule at random. Returns the number of changes with a backlog, or `None` if the test must be skipped.
fn keeps_flow(case: &Case, times: usize) -> Option<usize> {
    let mut world = World::new(case.hook)?;
    world.pod("free", "player");
    world.pod("gateway", "gateway");
    for at in ["free", "gateway"].map(|name| world.pod_named(name)) {
        at.set_gso_max_size(&world.node, case.gso).unwrap();
    }
    // BIG TCP of IPv4 came later than that of IPv6.
    let test = TcpTest {
        flow: Flow::Upload,
        streams: 2,
        omit: Duration::ZERO,
        duration: Duration::from_secs(1),
        congestion_control: Some(case.congestion_control.to_owned()),
        ..TcpTest::new(world.address("gateway", true))
    };
    let bulk = Bulk::start(world.pod_named("free").netns(), move || {
        drop(test.run(|_| ()));
    })
    .unwrap();
    let mut rule = RatedRule(world);
    let with_backlog = assert_random_changes_keep_flow(case, &mut rule, times, || {
        let (rate, burst) = random_rate_and_burst();
        Bandwidth { rate, burst }
    });
    rule.0
        .apply(Change::PolicyGone(policy("p", 1, "", vec![]).name));
    // The pods leave when the traffic has ended.
    drop(bulk);
    Some(with_backlog)
}
