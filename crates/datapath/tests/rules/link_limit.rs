//! Links for the queues of rules are bounded, and say what they are for.

use netqos_api::HookChoice;
use netqos_core::Reason;
use netqos_datapath::Paths;
use netqos_datapath::rules::{Outcome, RuleDatapath};
use netqos_index::Change;
use netqos_netlink::Socket;

use crate::assert_about;
use crate::world::{World, limiting, policy};

fn queues(outcome: &Outcome) -> Vec<bool> {
    outcome
        .meters
        .values()
        .map(|meter| meter.queue.is_some())
        .collect()
}

fn reasons(outcome: &Outcome) -> Vec<Reason> {
    outcome
        .problems
        .iter()
        .map(|problem| problem.reason)
        .collect()
}

fn rated(name: &str, kind: &str) -> Change {
    Change::Policy(policy(name, 1, kind, vec![limiting(20)]))
}

#[test]
fn rule_beyond_the_limit_polices_until_another_gives_up_its_queue() {
    let Some(mut world) = World::new(HookChoice::Auto) else {
        return;
    };
    let paths = Paths::from_variables(|_| None);
    let rules = RuleDatapath::open(paths, HookChoice::Auto).unwrap();
    world.rules = rules.with_most_links(3);
    world.pod("a", "a");
    world.pod("b", "b");
    let outcome = world.apply(rated("a", "a"));
    assert_eq!(queues(&outcome), [true]);
    let outcome = world.try_apply(rated("b", "b"));
    assert_eq!(queues(&outcome), [true, false]);
    assert_eq!(reasons(&outcome), [Reason::LinkLimitReached]);
    let message = &outcome.problems[0].message;
    assert!(message.contains("3 links"), "{message}");
    // Its rate holds all the same.
    assert_about(world.tcp("b", "a", 2.0), 20e6);
    // A change of either is still followed.
    let faster = Change::Policy(policy("b", 1, "b", vec![limiting(30)]));
    assert_eq!(queues(&world.try_apply(faster)), [true, false]);
    assert_about(world.tcp("b", "a", 2.0), 30e6);

    world.try_apply(Change::PolicyGone(policy("a", 1, "", vec![]).name));
    let outcome = world.rules.inspect(world.index.plan());
    assert_eq!((queues(&outcome), reasons(&outcome)), (vec![true], vec![]));
    assert_about(world.tcp("b", "a", 2.0), 30e6);
}

/// The names and aliases of the pairs' ends, by index.
fn pairs() -> Vec<(u32, String, String)> {
    let links = Socket::open().unwrap().links().unwrap().into_iter();
    let ends = links.filter(|link| link.name.starts_with("nq"));
    let ends = ends.map(|link| (link.index, link.name, link.alias.unwrap_or_default()));
    ends.collect()
}

#[test]
fn both_ends_of_a_pair_name_their_rule() {
    let Some(mut world) = World::new(HookChoice::Auto) else {
        return;
    };
    world.pod("a", "a");
    world.apply(rated("free", "a"));
    let made = pairs();
    assert_eq!(made.len(), 2);
    for (_, name, alias) in &made {
        let purpose = " egress[0] of NetworkQoS games/free";
        assert!(
            alias.starts_with("netqos:rule:") && alias.ends_with(purpose),
            "{name}: {alias}"
        );
    }
    // Earlier builds wrote less, and to the first end alone.
    for (_, name, alias) in &made {
        let number = alias.split(' ').next().filter(|_| name.ends_with('a'));
        let words = ["link", "set", name, "alias", number.unwrap_or_default()];
        world.node.run("ip", &words).unwrap();
    }
    assert_ne!(pairs(), made);
    world.rules.sync(world.index.plan());
    assert_eq!(pairs(), made);
    world.apply(Change::PolicyGone(policy("free", 1, "", vec![]).name));
    world.rules.tidy().unwrap();
    assert_eq!(pairs(), []);
}
