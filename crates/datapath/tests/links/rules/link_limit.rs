//! Links for the queues of rules are bounded, and say what they are for.

use std::time::Duration;

use netqos_api::HookChoice;
use netqos_core::Reason;
use netqos_datapath::Paths;
use netqos_datapath::rules::{Outcome, RuleDatapath};
use netqos_index::Change;
use netqos_netlink::Socket;
use netqos_testkit::rules::{World, limiting, policy};

use super::assert_limited;

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
    assert_limited(&world, &[("b", "a")], 20);
    // A change of either is still followed.
    let faster = Change::Policy(policy("b", 1, "b", vec![limiting(30)]));
    assert_eq!(queues(&world.try_apply(faster)), [true, false]);
    assert_limited(&world, &[("b", "a")], 30);

    world.try_apply(Change::PolicyGone(policy("a", 1, "", vec![]).name));
    let outcome = world.rules.inspect(world.index.plan());
    assert_eq!((queues(&outcome), reasons(&outcome)), (vec![true], vec![]));
    assert_limited(&world, &[("b", "a")], 30);
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

/// Makes and removes a rule with a rate so often, without a pause in which the agent would remove the links.
fn come_and_go(world: &mut World, times: u64) {
    for number in 0..times {
        let name = format!("p{number}");
        world.apply(rated(&name, "a"));
        world.try_apply(Change::PolicyGone(policy(&name, 1, "", vec![]).name));
        world.rules.finish(world.index.plan());
    }
}

#[test]
fn links_stay_bounded_while_rules_change_without_a_pause() {
    let Some(mut world) = World::new(HookChoice::Auto) else {
        return;
    };
    let open = || RuleDatapath::open(Paths::from_variables(|_| None), HookChoice::Auto).unwrap();
    world.rules = open().with_most_links(6);
    world.pod("a", "a");
    world.pod("b", "b");
    world.apply(rated("b", "b"));
    let kept = pairs();
    come_and_go(&mut world, 6);
    assert_eq!(pairs().len(), 6);
    // The next process has the same bound from the start, and keeps what is in use. A new rule has its queue.
    world.rules = open().with_most_links(6);
    world.index.apply(rated("c", "a"));
    world.index.take_delta();
    let outcome = world.rules.sync(world.index.plan());
    assert_eq!(
        (queues(&outcome), reasons(&outcome)),
        (vec![true, true], vec![])
    );
    come_and_go(&mut world, 6);
    let left = pairs();
    assert_eq!(left.len(), 6);
    assert!(kept.iter().all(|end| left.contains(end)), "{left:?}");
}

/// More than a change removes in its time.
#[test]
fn links_stay_bounded_while_many_rules_are_replaced_at_once() {
    let Some(mut world) = World::new(HookChoice::Auto) else {
        return;
    };
    let paths = Paths::from_variables(|_| None);
    let rules = RuleDatapath::open(paths, HookChoice::Auto).unwrap();
    world.rules = rules.with_most_links(40);
    world.pod("a", "a");
    for number in 0..6 {
        let name = format!("p{number}");
        let rules = vec![limiting(20); 20];
        let before = format!("p{}", number - 1);
        world
            .index
            .apply(Change::PolicyGone(policy(&before, 1, "", vec![]).name));
        world.try_apply(Change::Policy(policy(&name, 1, "a", rules)));
        world.rules.finish(world.index.plan());
        let links = pairs().len();
        assert!((40..=80).contains(&links), "{links} links");
    }
    world.tidy();
    let outcome = world.rules.inspect(world.index.plan());
    assert_eq!(
        (queues(&outcome), reasons(&outcome)),
        (vec![true; 20], vec![])
    );
}

#[test]
fn restart_at_the_limit_keeps_the_queues() {
    let Some(mut world) = World::new(HookChoice::Auto) else {
        return;
    };
    world.pod("a", "a");
    world.apply(rated("a", "a"));
    let made = pairs();
    let paths = Paths::from_variables(|_| None);
    let rules = RuleDatapath::open(paths, HookChoice::Auto).unwrap();
    world.rules = rules.with_most_links(2);
    let outcome = world.rules.sync(world.index.plan());
    assert_eq!((queues(&outcome), reasons(&outcome)), (vec![true], vec![]));
    assert_eq!(pairs(), made);
}

#[test]
fn links_are_removed_a_pair_at_a_time_where_time_is_short() {
    let Some(mut world) = World::new(HookChoice::Auto) else {
        return;
    };
    world.pod("a", "a");
    world.pod("b", "b");
    world.apply(rated("b", "b"));
    let kept = pairs();
    come_and_go(&mut world, 3);
    for left in [6, 4, 2] {
        let is_done = world.rules.tidy_for(Duration::ZERO).unwrap();
        assert_eq!((is_done, pairs().len()), (left == 2, left));
    }
    assert_eq!(pairs(), kept);
}
