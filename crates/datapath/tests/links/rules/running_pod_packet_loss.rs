use std::thread;
use std::time::Duration;

use netqos_api::HookChoice;
use netqos_datapath::Paths;
use netqos_datapath::rules::remove_all;
use netqos_index::Change;
use netqos_testkit::rules::{World, limiting, marking, policy};
use netqos_testkit::{Apart, BacklogDrops, assert_loses_no_more_than_tc};

const TIMES: usize = 20;

/// The automatic hook does not take the link down on kernels with tcx.
#[test]
fn first_and_last_rule_lose_no_packet() {
    for (from, to) in [("other", "free"), ("free", "other")] {
        let Some(mut world) = World::new(HookChoice::Auto) else {
            return;
        };
        world.pod("free", "player");
        world.pod("other", "other");
        let drops = BacklogDrops::count().unwrap();
        let sent = world.under_way(from, to);
        for _ in 0..TIMES {
            world.apply(Change::Policy(policy("p", 1, "player", vec![marking(46)])));
            thread::sleep(Duration::from_millis(60));
            world.apply(Change::PolicyGone(policy("p", 1, "", vec![]).name));
            thread::sleep(Duration::from_millis(60));
        }
        let report = sent.join().unwrap();
        assert!(
            report.lost <= drops.so_far().unwrap(),
            "{from} to {to}: {report}"
        );
    }
}

/// Adding clsact takes the link down for a moment, also where `tc` does it. Packets from the pod are not lost.
#[test]
fn forced_clsact_loses_no_more_packets_than_tc() {
    let by_netqos = || {
        lost_to_pod(|world, comes| {
            world.apply(match comes {
                true => Change::Policy(policy("p", 1, "player", vec![marking(46)])),
                false => Change::PolicyGone(policy("p", 1, "", vec![]).name),
            });
        })
    };
    let by_tc = || {
        lost_to_pod(|world, comes| {
            let verb = if comes { "add" } else { "del" };
            let link = world.pod_named("free").host_link();
            let words = ["qdisc", verb, "dev", link, "clsact"];
            world.node.run("tc", &words).unwrap();
        })
    };
    assert_loses_no_more_than_tc("to the pod", by_netqos, by_tc);
}

/// Runs pairs of changes, and returns how many packets to the pod were lost, without those that the receive
/// backlog of a busy machine dropped.
fn lost_to_pod(mut act: impl FnMut(&mut World, bool)) -> u64 {
    let Some(mut world) = World::new(HookChoice::Clsact) else {
        return 0;
    };
    world.pod("free", "player");
    world.pod("other", "other");
    let drops = BacklogDrops::count().unwrap();
    let (sent, _apart) = Apart::start(|| world.under_way("other", "free"));
    for _ in 0..TIMES {
        for comes in [true, false] {
            act(&mut world, comes);
            thread::sleep(Duration::from_millis(60));
        }
    }
    let lost = sent.join().unwrap().lost;
    lost.saturating_sub(drops.so_far().unwrap())
}

#[test]
fn removal_of_all_rules_loses_no_packet() {
    for (from, to) in [("other", "free"), ("free", "other")] {
        let Some(mut world) = World::new(HookChoice::Auto) else {
            return;
        };
        world.pod("free", "player");
        world.pod("other", "other");
        let rules = vec![marking(46), limiting(200)];
        world.apply(Change::Policy(policy("p", 1, "player", rules)));
        let drops = BacklogDrops::count().unwrap();
        let sent = world.under_way(from, to);
        thread::sleep(Duration::from_secs(1));
        remove_all(&Paths::from_variables(|_| None)).unwrap();
        let report = sent.join().unwrap();
        assert!(
            report.lost <= drops.so_far().unwrap(),
            "{from} to {to}: {report}"
        );
    }
}
