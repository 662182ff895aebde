//! Which of several rules wins.

use netqos_core::plan::Chain;
use netqos_core::{Mode, ObjectRef, Policy, Reason, Rule};
use netqos_index::{Change, Index};

use crate::Applied as _;
use crate::objects::{default_mark, index, local, name, policy, rule, selector, to_block};

fn with(policies: Vec<Policy>) -> Index {
    let here = local("a/p", &[("app", "web")], "10.0.0.1");
    index(
        here.into_iter()
            .chain(policies.into_iter().map(Change::Policy)),
    )
}

#[test]
fn priority_then_the_later_rule_then_the_smaller_name_decides() {
    let any = |mark| rule(mark, vec![]);
    let narrow = |mark| rule(mark, vec![to_block("192.0.2.0/24")]);
    let shadow = |mark| Rule {
        mode: Mode::Shadow,
        ..any(mark)
    };
    for (what, policies, mark) in [
        (
            "the higher priority, however general",
            vec![
                policy("a/x", 1, vec![narrow(1)]),
                policy("a/y", 2, vec![any(2)]),
            ],
            Some(2),
        ),
        (
            "of one object the later",
            vec![policy("a/x", 1, vec![any(1), narrow(2)])],
            Some(2),
        ),
        (
            "of one object the later, however general",
            vec![policy("a/x", 1, vec![narrow(1), any(2)])],
            Some(2),
        ),
        (
            "of equal priority the smaller name",
            vec![
                policy("a/y", 1, vec![any(1), any(2)]),
                policy("a/x", 1, vec![any(3)]),
            ],
            Some(3),
        ),
        (
            "what does not match does not count",
            vec![
                policy("a/x", 9, vec![rule(1, vec![to_block("10.9.0.0/16")])]),
                policy("a/y", 2, vec![any(2)]),
            ],
            Some(2),
        ),
        (
            "shadow decides nothing",
            vec![
                policy("a/x", 9, vec![shadow(1)]),
                policy("a/y", 2, vec![any(2)]),
            ],
            Some(2),
        ),
        (
            "another namespace's policy is for other pods",
            vec![policy("b/x", 9, vec![any(1)])],
            None,
        ),
    ] {
        let index = with(policies);
        assert_eq!(default_mark(&index, "a/p", "192.0.2.1"), mark, "{what}");
    }
}

#[test]
fn equal_priorities_for_the_same_pod_are_told_to_both() {
    let any = || vec![rule(1, vec![])];
    let web = |text, priority| Policy {
        pods: selector(&[("app", "web")]),
        ..policy(text, priority, any())
    };
    let others = Policy {
        pods: selector(&[("app", "db")]),
        ..policy("a/z", 5, any())
    };
    let mut index = with(vec![
        policy("a/x", 5, any()),
        web("a/y", 5),
        web("a/w", 6),
        others,
    ]);
    let told: Vec<_> = index
        .problems()
        .into_iter()
        .map(|problem| (problem.object, problem.reason, problem.message))
        .collect();
    assert_eq!(told.len(), 2, "{told:?}");
    for ((object, reason, message), (of, with)) in told.iter().zip([("a/x", "a/y"), ("a/y", "a/x")])
    {
        assert_eq!(*object, ObjectRef::Policy(name(of)));
        assert_eq!(*reason, Reason::Conflict);
        assert!(
            message.contains(with) && message.contains("a/p"),
            "{message}"
        );
    }
    index.applied(Change::Policy(web("a/y", 4)));
    assert_eq!(index.problems(), vec![]);
}

#[test]
fn rules_beyond_what_fits_are_left_out_from_the_least_and_reported() {
    let rules = |mark: u8| (0..20).map(|_| rule(mark, vec![])).collect::<Vec<_>>();
    let policies = (0..52).map(|number| {
        let text = format!("a/{number:02}");
        policy(&text, 52 - number, rules(u8::try_from(number).unwrap()))
    });
    let index = with(policies.collect());
    let chain = index.plan().chains.values().next().unwrap();
    assert_eq!(chain.rules.len(), Chain::MAX_RULES);
    assert_eq!(chain.rules[0].id.to_string(), "a/00[19]");
    assert_eq!(chain.rules[Chain::MAX_RULES - 1].id.to_string(), "a/51[16]");
    let problems = index.problems();
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].reason, Reason::TooManyRules);
    assert_eq!(problems[0].object, ObjectRef::Pod(name("a/p")));
}

#[test]
fn pods_with_equal_rules_share_a_chain() {
    let here = |text, address| local(text, &[], address);
    let mut changes = here("a/p", "10.0.0.1").to_vec();
    changes.extend(here("a/q", "10.0.0.2"));
    changes.push(Change::Policy(policy("a/x", 1, vec![rule(1, vec![])])));
    let index = index(changes);
    assert_eq!(
        (index.plan().endpoints.len(), index.plan().chains.len()),
        (2, 1)
    );
    assert_eq!(index.selected(&name("a/x")).len(), 2);
    assert_eq!(index.selected(&name("a/y")), vec![]);
}
