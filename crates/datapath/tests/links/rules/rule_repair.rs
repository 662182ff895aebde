//! Repairs of rules again and again, and of a queue that has stalled.

use std::thread;
use std::time::{Duration, Instant};

use netqos_api::HookChoice;
use netqos_core::{Limit, ObjectRef, Reason};
use netqos_datapath::Shape;
use netqos_datapath::rules::Outcome;
use netqos_index::Change;
use netqos_netlink::link::Link;
use netqos_netlink::qdisc::Tbf;
use netqos_netlink::{Handle, Socket};
use netqos_testkit::Bulk;
use netqos_testkit::rules::{World, apart, limiting, mbit, policy};
use netqos_traffic::TcpTest;

fn inspect(world: &mut World) -> Outcome {
    world.rules.inspect(world.index.plan())
}

/// A node with a rule of 10 Mbit/s, and the name of its queue.
fn limited(hook: HookChoice) -> Option<(World, String)> {
    let mut world = World::new(hook)?;
    world.pod("free", "player");
    world.pod("gateway", "gateway");
    let outcome = world.apply(Change::Policy(policy("p", 1, "player", vec![limiting(10)])));
    let queue = outcome.meters.values().next().unwrap().queue.clone();
    Some((world, queue.unwrap()))
}

#[test]
fn program_or_queue_removed_six_times_is_restored_five_times() {
    apart(["clsact", "root"], |qdisc| {
        let Some((mut world, queue)) = limited(HookChoice::Clsact) else {
            return;
        };
        let link = match qdisc {
            "clsact" => world.pod_named("free").host_link().to_owned(),
            _ => queue,
        };
        for times in 1..=6 {
            // Exhausted, but nothing is wrong.
            assert_eq!(inspect(&mut world).problems, [], "{qdisc} {times}");
            let delete = ["qdisc", "del", "dev", &link, qdisc];
            world.node.run("tc", &delete).unwrap();
            let outcome = inspect(&mut world);
            let restored = outcome.restored.len() as u64 + outcome.queues_restored;
            if times <= 5 {
                assert_eq!((restored, &outcome.problems[..]), (1, &[][..]), "{qdisc}");
                continue;
            }
            let [problem] = &outcome.problems[..] else {
                panic!("{qdisc}: {outcome:?}")
            };
            assert_eq!((restored, problem.reason), (0, Reason::RepairContested));
            let is_about_pod = matches!(problem.object, ObjectRef::Pod(_));
            assert_eq!(is_about_pod, qdisc == "clsact", "{problem}");
            // What is not there is not reported as in force.
            let reported = match qdisc {
                "clsact" => outcome.endpoints.len(),
                _ => outcome.meters.len(),
            };
            assert_eq!(reported, 0, "{qdisc}: {outcome:?}");
            // Nor is what is there again reported as failing.
            let outcome = world.rules.sync(world.index.plan());
            let reported = (outcome.endpoints.len(), outcome.meters.len());
            assert_eq!(
                (reported, &outcome.problems[..]),
                ((1, 1), &[][..]),
                "{qdisc}"
            );
        }
    });
}

/// The queue takes packets with a larger bucket than the rule's.
#[test]
fn stalled_rule_queue_is_emptied() {
    let Some((mut world, queue)) = limited(HookChoice::Auto) else {
        return;
    };
    let mut socket = Socket::open().unwrap();
    let link = socket.link_by_name(&queue).unwrap();
    let of_pods = Link {
        mtu: 1500,
        gso_max_size: link.gso_max_size,
        ..Link::default()
    };
    let right = Shape::new(&Limit::of(mbit(10)), &of_pods).tbf();
    let installed = socket.qdisc_at(&link, Handle::ROOT).unwrap().unwrap();
    assert!(installed.tbf().unwrap() == right, "{installed:?}");
    let slow = Tbf {
        rate: 12_500,
        burst: 20_000,
        largest: 20_000,
        limit: 1_000_000,
    };
    let mut put = |tbf: &Tbf| {
        let root = Handle::new(1, 0);
        socket.put_qdisc(&link, Handle::ROOT, root, tbf).unwrap();
    };
    // The first packet of a connection has ten segments.
    let bulk = TcpTest {
        streams: 8,
        omit: Duration::ZERO,
        ..world.tcp_test("gateway", 0.3)
    };
    let bulk = Bulk::start(world.pod_named("free").netns(), move || {
        drop(bulk.run(|_| ()));
    })
    .unwrap();
    // Whether such a packet waits just then is a matter of chance.
    let outcome = (0..20).find_map(|_| {
        put(&slow);
        thread::sleep(Duration::from_millis(100));
        put(&right);
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(1) {
            let outcome = inspect(&mut world);
            if !outcome.problems.is_empty() {
                return Some(outcome);
            }
            thread::sleep(Duration::from_millis(100));
        }
        None
    });
    drop(bulk);
    let outcome = outcome.expect("no queue has stalled");
    let problem = &outcome.problems[0];
    assert_eq!(problem.reason, Reason::QueueStalled, "{problem}");
    assert!(matches!(problem.object, ObjectRef::Policy(_)), "{problem}");
    assert_eq!(outcome.queues_restored, 1);
    assert!(outcome.dropped > 0);
    // Without a new stall the problem ends.
    assert_eq!(inspect(&mut world).problems, []);
    let sent = TcpTest {
        omit: Duration::ZERO,
        ..world.tcp_test("gateway", 2.0)
    };
    let sent = world.run("free", move || sent.run(|_| ()).unwrap());
    assert!(sent.goodput.received.bytes() > 500_000, "{sent}");
}
