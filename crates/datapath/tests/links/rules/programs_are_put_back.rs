//! Where others took them away, or came before them later.

use std::time::{Duration, Instant};

use netqos_api::HookChoice;
use netqos_core::Reason;
use netqos_datapath::HookKind;
use netqos_datapath::rules::Outcome;
use netqos_index::Change;
use netqos_netlink::filter::{Bpf, Place};
use netqos_netlink::{Handle, Socket};
use netqos_testkit::rules::{World, is_there, limiting, marking, mbit, policy};
use netqos_testkit::{BacklogDrops, ForeignHook, ForeignProgram, TcAttachType, Verdict, has_tcx};

/// A node where a rule with a rate marks what `a` sends.
fn world(hook: HookChoice) -> Option<World> {
    let mut world = World::new(hook)?;
    world.pod("a", "player");
    world.pod("b", "gateway");
    let rule = netqos_core::Rule {
        bandwidth: limiting(100).bandwidth,
        ..marking(20)
    };
    world.apply(Change::Policy(policy("p", 1, "player", vec![rule])));
    assert_eq!(world.marks("a", "b", false), [20]);
    Some(world)
}

fn inspect(world: &mut World) -> Outcome {
    world.rules.inspect(world.index.plan())
}

/// What is inspected between full inspections.
fn inspect_programs(world: &mut World) -> Outcome {
    world.rules.inspect_programs(world.index.plan())
}

fn hook_of(outcome: &Outcome) -> HookKind {
    outcome.endpoints.values().next().unwrap().hook
}

/// Each in a thread of its own, which a node takes over.
fn with(hooks: &[HookChoice], test: fn(World)) {
    for hook in hooks.iter().copied().filter(is_there) {
        let run = move || world(hook).map(test);
        std::thread::spawn(run).join().unwrap();
    }
}

#[test]
fn when_somebody_takes_them_away() {
    with(&[HookChoice::Auto, HookChoice::Clsact], |mut world| {
        let link = world.pod_named("a").host_link().to_owned();
        let outcome = inspect(&mut world);
        assert!(outcome.restored.is_empty());
        if hook_of(&outcome) == HookKind::Tcx {
            let delete = ["/sys/fs/bpf/netqos", "-name", "*:rules", "-delete"];
            world.node.run("find", &delete).unwrap();
        } else {
            let delete = ["qdisc", "del", "dev", &link, "clsact"];
            world.node.run("tc", &delete).unwrap();
        }
        // The kernel detaches a tcx link some time after its last pin is removed.
        let end = Instant::now() + Duration::from_secs(10);
        while world.marks("a", "b", false) != [0] {
            assert!(Instant::now() < end, "the program is still attached");
        }
        let outcome = inspect_programs(&mut world);
        assert_eq!(outcome.problems, []);
        assert_eq!(outcome.restored.len(), 1);
        assert!(outcome.restored[0].was_gone && outcome.restored[0].interface == link);
        assert_eq!(world.marks("a", "b", false), [20]);
        assert_eq!(inspect(&mut world).changes, 0);
    });
}

#[test]
fn when_somebody_comes_before_them() {
    // The other program is on a tcx hook.
    if !has_tcx() {
        return;
    }
    with(&[HookChoice::Auto, HookChoice::Tcx], |mut world| {
        let link = world.pod_named("a").host_link().to_owned();
        let untouched = inspect(&mut world);
        assert_eq!((untouched.changes, untouched.restored.len()), (0, 0));
        // Who comes first and accepts leaves nothing for others.
        let attach = || {
            let first = ForeignHook::TcxFirst;
            let ingress = TcAttachType::Ingress;
            ForeignProgram::attach(&link, ingress, first, Verdict::Accept).unwrap()
        };
        let first = attach();
        assert_eq!(world.marks("a", "b", false), [0]);
        let outcome = inspect_programs(&mut world);
        assert_eq!(outcome.problems, []);
        assert_eq!(hook_of(&outcome), HookKind::Tcx);
        assert!(outcome.restored.len() == 1 && !outcome.restored[0].was_gone);
        assert_eq!(world.marks("a", "b", false), [20]);
        assert_eq!(inspect(&mut world).changes, 0);
        // What the plan says is so, also to who comes new.
        assert_eq!(world.rules.sync(world.index.plan()).changes, 0);

        // Who insists stays there, and that is said.
        let mut others = Vec::new();
        let contested = loop {
            others.push(attach());
            let outcome = inspect_programs(&mut world);
            if outcome.restored.is_empty() {
                break outcome;
            }
            assert!(others.len() < 10);
        };
        assert_eq!(contested.problems.len(), 1);
        assert_eq!(contested.problems[0].reason, Reason::HookContested);
        drop((first, others));
        // The kernel detaches them some time after that.
        let end = Instant::now() + Duration::from_secs(10);
        loop {
            let problems = inspect(&mut world).problems;
            if problems.is_empty() {
                break;
            }
            assert!(Instant::now() < end, "{problems:?}");
        }
        assert_eq!(world.marks("a", "b", false), [20]);

        // Nothing stays of all this.
        let paths = netqos_datapath::Paths::from_variables(|_| None);
        netqos_datapath::rules::remove_all(&paths).unwrap();
        assert_eq!(world.marks("a", "b", false), [0]);
        let left = world.node.traffic_control(&link).unwrap();
        assert!(!left.contains("clsact"), "{left}");
    });
}

/// Whoever is killed on the way from one hook to the other leaves the program on both. Each packet
/// is dealt with once all the same: those from a rule's queue do not go there again.
#[test]
fn and_one_that_is_on_both_hooks_is_on_one_again() {
    with(&[HookChoice::Tcx], |mut world| {
        let link = world.pod_named("a").host_link().to_owned();
        let number = inspect(&mut world)
            .endpoints
            .values()
            .next()
            .unwrap()
            .number;
        let add = ["qdisc", "add", "dev", &link, "clsact"];
        world.node.run("tc", &add).unwrap();
        let rules = netqos_bpf::rules::Rules::open("/sys/fs/bpf".as_ref());
        let rules = rules.unwrap().unwrap();
        let mut socket = Socket::open().unwrap();
        let found = socket.link_by_name(&link).unwrap();
        let filter = Bpf {
            program: rules.program().unwrap(),
            name: "netqos_rules",
            argument: number,
        };
        let place = Place {
            hook: Handle::CLSACT_INGRESS,
            preference: 1,
            handle: 0x6e72,
        };
        socket.put_filter(&found, place, &filter).unwrap();
        // The kernel announces a filter, and the tcx hook is as before.
        assert_eq!(inspect_programs(&mut world).restored, []);
        let before = world.rules.counts().unwrap()[0].packets;
        let drops = BacklogDrops::count().unwrap();
        let report = world.udp("a", "b", mbit(1));
        assert!(report.lost <= drops.so_far().unwrap(), "{report}");
        assert_eq!(u8::from(report.dscp_seen[0].dscp), 20);
        let counted = world.rules.counts().unwrap()[0].packets - before;
        // And what the two ends say to each other about it.
        assert!(
            (report.sent..report.sent + 50).contains(&counted),
            "{counted}: {report}"
        );
        let outcome = world.rules.sync(world.index.plan());
        assert_eq!(outcome.problems, []);
        assert!(outcome.changes > 0);
        assert_eq!(world.marks("a", "b", false), [20]);
        assert_eq!(world.rules.sync(world.index.plan()).changes, 0);
        assert!(
            !world
                .node
                .traffic_control(&link)
                .unwrap()
                .contains("netqos_rules")
        );
    });
}

/// A rule's queue is looked after as well.
#[test]
fn when_somebody_takes_the_queue_of_a_rule_away() {
    with(&[HookChoice::Auto], |mut world| {
        let outcome = inspect(&mut world);
        let queue = outcome
            .meters
            .values()
            .next()
            .unwrap()
            .queue
            .clone()
            .unwrap();
        world.node.run("ip", &["link", "del", &queue]).unwrap();
        let outcome = inspect(&mut world);
        assert_eq!(outcome.problems, []);
        assert!(outcome.changes > 0);
        assert_eq!(world.marks("a", "b", false), [20]);
        assert_eq!(inspect(&mut world).changes, 0);
    });
}

#[test]
fn and_where_they_have_to_stay_behind_that_is_said() {
    // The other program is on a tcx hook.
    if !has_tcx() {
        return;
    }
    with(&[HookChoice::Clsact], |mut world| {
        let link = world.pod_named("a").host_link().to_owned();
        let ingress = TcAttachType::Ingress;
        let foreign =
            ForeignProgram::attach(&link, ingress, ForeignHook::TcxLast, Verdict::Next).unwrap();
        let outcome = inspect(&mut world);
        assert_eq!(outcome.restored, []);
        assert_eq!(outcome.problems.len(), 1);
        assert_eq!(outcome.problems[0].reason, Reason::HookContested);
        drop(foreign);
        assert_eq!(inspect(&mut world).problems, []);
    });
}
