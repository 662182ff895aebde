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
fn second_end_of_a_pair_names_its_rule_and_the_first_its_number() {
    let Some(mut world) = World::new(HookChoice::Auto) else {
        return;
    };
    world.pod("a", "a");
    world.apply(rated("free", "a"));
    let made = pairs();
    assert_eq!(made.len(), 2);
    for (_, name, alias) in &made {
        let purpose = match name.ends_with('b') {
            true => " egress[0] of NetworkQoS games/free",
            false => "",
        };
        let number = alias.strip_prefix("netqos:rule:");
        let number = number.and_then(|rest| rest.strip_suffix(purpose));
        let is_number = number.is_some_and(|it| u64::from_str_radix(it, 16).is_ok());
        assert!(is_number, "{name}: {alias}");
    }
    // An earlier build writes none to the second end.
    for (_, name, _) in made.iter().filter(|(_, name, _)| name.ends_with('b')) {
        let words = ["link", "set", name, "alias", ""];
        world.node.run("ip", &words).unwrap();
    }
    assert_ne!(pairs(), made);
    world.rules.sync(world.index.plan());
    assert_eq!(pairs(), made);
    world.apply(Change::PolicyGone(policy("free", 1, "", vec![]).name));
    world.tidy();
    assert_eq!(pairs(), []);
}
