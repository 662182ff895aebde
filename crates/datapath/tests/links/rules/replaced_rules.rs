//! What changes replace stays until no program has it in hand.

use std::path::Path;

use netqos_api::HookChoice;
use netqos_bpf::rules::Rules;
use netqos_core::{
    Destination, LabelSelector, ObjectName, PeerSelector, Policy, Requirement, Rule,
};
use netqos_index::Change;
use netqos_testkit::rules::{World, limiting, marking, policy, to_pod};

/// More than may be left at a time.
const CHANGES: i64 = 150;
/// That many, and one that is used.
const MOST_CHAINS: usize = 65;

fn chains() -> usize {
    let rules = Rules::open(Path::new("/sys/fs/bpf")).unwrap().unwrap();
    rules.chains.keys().unwrap().len()
}

fn marks(dscp: i64) -> Change {
    Change::Policy(policy("p", 1, "player", vec![marking(dscp)]))
}

fn world() -> Option<World> {
    let mut world = World::new(HookChoice::Auto)?;
    world.pod("a", "player");
    world.pod("b", "gateway");
    Some(world)
}

#[test]
fn rules_that_come_again_are_kept() {
    let Some(mut world) = world() else { return };
    for dscp in [10, 20, 10] {
        world.apply(marks(dscp));
    }
    assert_eq!(chains(), 2);
    assert!(world.rules.is_unfinished());
    world.tidy();
    assert_eq!(chains(), 1);
    assert_eq!(world.marks("a", "b", false), [10]);
    assert_eq!(world.rules.sync(world.index.plan()).changes, 0);
}

/// Its meter comes again with it.
#[test]
fn limit_that_comes_again_is_kept() {
    let Some(mut world) = world() else { return };
    let limit = |megabits| Change::Policy(policy("p", 1, "player", vec![limiting(megabits)]));
    for change in [limit(10), marks(20), limit(10)] {
        world.apply(change);
    }
    assert_eq!(world.tidy().meters.len(), 1);
    assert_eq!(world.rules.sync(world.index.plan()).changes, 0);
    world.apply(marks(20));
    assert_eq!(world.tidy().meters.len(), 0);
    assert_eq!(world.rules.sync(world.index.plan()).changes, 0);
}

#[test]
fn peers_that_change_wait_for_replaced_rules() {
    let Some(mut world) = world() else { return };
    world.apply(marks(10));
    world.apply(marks(20));
    assert_eq!(chains(), 2);
    // The rule goes to a peer that had no class before.
    let mut to_b = marking(30);
    to_b.to = vec![to_pod("b")];
    world.apply(Change::Policy(policy("p", 1, "player", vec![to_b])));
    assert_eq!(chains(), 2, "the chain before the last is left");
    world.tidy();
    assert_eq!(world.marks("a", "b", false), [30]);
}

/// A peer that left them meanwhile is on a detour, in which it is to them what it was.
#[test]
fn rules_that_come_again_mark_the_peers_of_now() {
    let Some(mut world) = world() else { return };
    world.pod("c", "guard");
    let to = |kind: &str, dscp| {
        let selector = LabelSelector::new([Requirement::equals("kind", kind)]);
        let pods = Destination::Pods(PeerSelector {
            namespaces: None,
            pods: Some(selector),
        });
        let rule = Rule {
            to: vec![pods],
            ..marking(dscp)
        };
        policy("p", 1, "player", vec![rule])
    };
    // Rules of another pod, so that the kind stays one.
    let others = Policy {
        name: ObjectName::new("games", "others"),
        pods: LabelSelector::new([Requirement::equals("kind", "guard")]),
        ..to("gateway", 40)
    };
    world.apply(Change::Policy(others));
    world.apply(Change::Policy(to("gateway", 10)));
    assert_eq!(world.marks("a", "b", false), [10]);
    world.tidy();
    world.relabel("b", "store");
    world.apply(Change::Policy(to("nobody", 20)));
    world.apply(Change::Policy(to("gateway", 10)));
    assert_eq!(world.marks("a", "b", false), [0]);
    world.tidy();
    assert_eq!(world.marks("a", "b", false), [0]);
    assert_eq!(world.rules.sync(world.index.plan()).changes, 0);
}

#[test]
fn replaced_rules_are_bounded() {
    let Some(mut world) = world() else { return };
    for change in 0..CHANGES {
        let mut rules = vec![marking(change % 60)];
        rules.extend((0..change / 60).map(|_| marking(1)));
        world.apply(Change::Policy(policy("p", 1, "player", rules)));
        assert!(chains() <= MOST_CHAINS, "{} chains", chains());
    }
    assert!(world.rules.is_unfinished());
    world.tidy();
    assert_eq!(chains(), 1);
}
