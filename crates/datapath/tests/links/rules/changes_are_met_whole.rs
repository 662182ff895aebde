use std::collections::BTreeSet;
use std::time::Duration;

use netqos_core::{Destination, LabelSelector, Operator, PeerSelector, Policy, Requirement, Rule};
use netqos_datapath::Paths;
use netqos_datapath::rules::RuleDatapath;
use netqos_index::Change;
use netqos_testkit::BacklogDrops;
use netqos_testkit::rules::{World, marking, on_both_hooks, policy, to_pod};

/// So many that their classes are not written in an instant.
const PEERS: u32 = 5_000;

/// Marks what goes to gateways, which are selected in another way each time.
fn selecting(swap: usize, dscp: i64) -> Policy {
    let other = format!("no-gateway-{swap}");
    let selector = LabelSelector::new([Requirement {
        key: "kind".into(),
        operator: Operator::In(["gateway".into(), other.as_str().into()].into()),
    }]);
    let gateways = Destination::Pods(PeerSelector {
        namespaces: None,
        pods: Some(selector),
    });
    let rule = Rule {
        to: vec![gateways],
        ..marking(dscp)
    };
    policy("p", 1, "player", vec![rule])
}

/// The peers that a rule goes to are its own up to the switch, and the new rule's from it on, also
/// where both go to them by another selector.
#[test]
fn with_the_selectors_of_their_time() {
    on_both_hooks(selectors);
}

fn selectors(hook: netqos_api::HookChoice) {
    let Some(mut world) = World::new(hook) else {
        return;
    };
    world.pod("a", "player");
    world.pod("b", "gateway");
    world.far_pods(PEERS, "gateway");
    world.apply(Change::Policy(selecting(0, 10)));
    let drops = BacklogDrops::count().unwrap();
    let sender = world.under_way("a", "b");
    let mut swaps = 0;
    // The last packets may come before the last swap; some swaps are as good as many.
    while !sender.is_finished() {
        swaps += 1;
        let dscp = if swaps % 2 == 0 { 10 } else { 20 };
        let outcome = world.apply(Change::Policy(selecting(swaps, dscp)));
        assert!(outcome.changes > u64::from(PEERS));
        if swaps % 3 == 0 {
            world.tidy();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(swaps >= 4, "only {swaps} swaps");
    let report = sender.join().unwrap();
    let seen: Vec<u8> = report.dscp_seen.iter().map(|s| s.dscp.into()).collect();
    assert_eq!(seen, [10, 20], "{hook:?}: {:?}", report.dscp_seen);
    assert!(report.lost <= drops.so_far().unwrap(), "{hook:?}: {report}");

    // Nothing of the way there is left.
    world.tidy();
    let rules = netqos_bpf::rules::Rules::open("/sys/fs/bpf".as_ref());
    let mut rules = rules.unwrap().unwrap();
    let plan = world.index.plan();
    let known: BTreeSet<u64> = plan.classes.keys().map(|id| id.0.get()).collect();
    let classes = rules.classes.keys().unwrap();
    assert_eq!(classes.len(), 1, "{hook:?}");
    for network in rules.networks.networks().unwrap() {
        let peers = rules.networks.all(network).unwrap();
        assert_eq!(peers.len(), plan.peers.len(), "{hook:?}");
        assert!(peers.iter().all(|(_, class)| known.contains(class)));
    }
    assert_eq!(world.rules.sync(world.index.plan()).changes, 0, "{hook:?}");
}

/// A pod that lost its rules while no agent ran loses them whole when one comes.
#[test]
fn also_by_who_comes_later() {
    on_both_hooks(|hook| {
        let Some(mut world) = World::new(hook) else {
            return;
        };
        world.pod("a", "player");
        world.pod("b", "gateway");
        world.pod("c", "other");
        world.far_pods(PEERS, "gateway");
        let to_b = Rule {
            to: vec![to_pod("b")],
            ..marking(30)
        };
        world.apply(Change::Policy(policy("q", 1, "other", vec![to_b])));
        let everything = marking(10);
        let to_gateways = selecting(0, 20).rules.remove(0);
        let both = policy("p", 1, "player", vec![everything, to_gateways]);
        let sender = world.under_way("a", "b");
        let mut times = 0;
        while !sender.is_finished() {
            times += 1;
            world.apply(Change::Policy(both.clone()));
            std::thread::sleep(Duration::from_millis(5));
            // The policy goes, and nobody is there to see it.
            world.index.apply(Change::PolicyGone(both.name.clone()));
            world.index.take_delta();
            world.rules = RuleDatapath::open(Paths::from_variables(|_| None), hook).unwrap();
            let outcome = world.rules.sync(world.index.plan());
            assert_eq!(outcome.problems, []);
        }
        assert!(times >= 4, "only {times} times");
        let report = sender.join().unwrap();
        let seen: Vec<u8> = report.dscp_seen.iter().map(|s| s.dscp.into()).collect();
        // With the half of its rules that names no peers it would be 10.
        assert_eq!(seen, [0, 20], "{hook:?}: {:?}", report.dscp_seen);
    });
}

/// Where the switch to new rules fails, the old ones stay whole, with the peers that they go to.
#[test]
fn or_not_at_all() {
    on_both_hooks(stays);
}

fn stays(hook: netqos_api::HookChoice) {
    let Some(mut world) = World::new(hook) else {
        return;
    };
    world.pod("a", "player");
    world.pod("b", "gateway");
    world.far_pods(100, "gateway");
    world.apply(Change::Policy(selecting(0, 10)));
    assert_eq!(world.marks("a", "b", false), [10]);

    let there = world.attached_at("a", world.pod_named("a").netns());
    let elsewhere = world.attached_at("a", "/run/netns/netqos-is-not-there");
    world.index.apply(elsewhere);
    let to_b = Rule {
        to: vec![to_pod("b")],
        ..marking(20)
    };
    let outcome = world.try_apply(Change::Policy(policy("p", 1, "player", vec![to_b.clone()])));
    assert_eq!(outcome.problems.len(), 1, "{outcome:#?}");
    assert!(outcome.endpoints.is_empty(), "{outcome:#?}");
    assert_eq!(world.marks("a", "b", false), [10], "{hook:?}");
    let again = world.rules.sync(world.index.plan());
    assert_eq!(again.problems, outcome.problems);
    assert!(again.endpoints.is_empty(), "{again:#?}");
    assert_eq!(world.marks("a", "b", false), [10], "{hook:?}");
    let third = world.rules.sync(world.index.plan());
    assert_eq!(third.changes, 0, "{hook:?}: {third:#?}");

    // Another pod's rules do not wait for it.
    world.pod("c", "other");
    let for_others = policy("q", 1, "other", vec![marking(30)]);
    let outcome = world.try_apply(Change::Policy(for_others));
    assert_eq!(outcome.endpoints.len(), 1, "{outcome:#?}");
    assert_eq!(world.marks("c", "b", false), [30], "{hook:?}");

    let outcome = world.apply(there);
    assert_eq!(outcome.endpoints.len(), 2, "{outcome:#?}");
    assert_eq!(world.marks("a", "b", false), [20], "{hook:?}");
    let synced = world.rules.sync(world.index.plan());
    assert_eq!(synced.changes, 0, "{hook:?}: {synced:#?}");
    let rules = netqos_bpf::rules::Rules::open("/sys/fs/bpf".as_ref());
    let mut rules = rules.unwrap().unwrap();
    let plan = world.index.plan();
    assert_eq!(rules.chains.keys().unwrap().len(), plan.chains.len());
    for network in rules.networks.networks().unwrap() {
        let peers = rules.networks.all(network).unwrap();
        assert_eq!(peers.len(), plan.peers.len(), "{hook:?}");
    }
}
