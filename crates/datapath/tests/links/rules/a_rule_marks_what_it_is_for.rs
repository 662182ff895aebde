use netqos_bpf::rules::Rules;
use netqos_core::{Mode, Rule};
use netqos_datapath::Paths;
use netqos_index::Change;
use netqos_netlink::Socket;
use netqos_testkit::rules::{HOOKS, World, limiting, marking, mbit, on_both_hooks, policy, to_pod};

#[test]
fn and_nothing_else_on_both_hooks_and_in_both_families() {
    on_both_hooks(|hook| {
        let Some(mut world) = World::new(hook) else {
            return;
        };
        world.pod("paid", "player");
        world.pod("gateway", "gateway");
        world.pod("other", "other");
        let rule = Rule {
            to: vec![to_pod("gateway")],
            ..marking(20)
        };
        let change = Change::Policy(policy("paid", 1, "player", vec![rule]));
        world.apply(change);
        for v6 in [false, true] {
            assert_eq!(world.marks("paid", "gateway", v6), [20], "{hook:?}");
            assert_eq!(world.marks("paid", "other", v6), [0]);
            assert_eq!(world.marks("other", "gateway", v6), [0]);
        }
        let counts = world.rules.counts().unwrap();
        assert_eq!(counts.len(), 1);
        assert!(counts[0].marked > 0 && counts[0].marked == counts[0].packets);

        world.apply(Change::PolicyGone(policy("paid", 1, "", vec![]).name));
        assert_eq!(world.marks("paid", "gateway", false), [0]);
    });
}

#[test]
fn counters_of_policy_that_is_deleted_are_removed_by_tidy() {
    let Some(mut world) = World::new(HOOKS[0]) else {
        return;
    };
    world.pod("paid", "player");
    world.pod("gateway", "gateway");
    let counters = || {
        let rules = Rules::open(Paths::from_variables(|_| None).bpffs()).unwrap();
        rules.unwrap().counters.all().unwrap().len()
    };
    // Each time: what an earlier tidy found is not all that there will be.
    for number in [1, 2] {
        let marks = policy("paid", number, "player", vec![marking(20)]);
        let name = marks.name.clone();
        world.apply(Change::Policy(marks));
        assert_eq!(world.marks("paid", "gateway", false), [20]);
        assert_eq!(counters(), 1);
        world.tidy();
        assert_eq!(counters(), 1);
        world.apply(Change::PolicyGone(name));
        world.tidy();
        assert_eq!(counters(), 0);
    }
}

#[test]
fn a_shadow_counts_what_it_would_mark_and_touches_nothing() {
    let Some(mut world) = World::new(HOOKS[0]) else {
        return;
    };
    world.pod("paid", "player");
    world.pod("gateway", "gateway");
    let shadow = Rule {
        mode: Mode::Shadow,
        ..marking(46)
    };
    // The later rule wins, were it not in shadow mode.
    let policy = policy("trial", 1, "player", vec![marking(10), shadow]);
    world.apply(Change::Policy(policy));
    assert_eq!(world.marks("paid", "gateway", false), [10]);
    let counts = world.rules.counts().unwrap();
    let marked: Vec<u64> = counts.iter().map(|count| count.marked).collect();
    assert_eq!(marked.len(), 2);
    assert!(marked[0] > 0 && marked[0] == marked[1], "{marked:?}");
}

/// A rate on trial, too: nothing waits, nothing is dropped, and there is nowhere to wait.
#[test]
fn a_shadow_counts_what_it_would_drop_and_makes_no_queue() {
    let Some(mut world) = World::new(HOOKS[0]) else {
        return;
    };
    world.pod("free", "player");
    world.pod("gateway", "gateway");
    let links = || Socket::open().unwrap().links().unwrap().len();
    let before = links();
    let trial = Rule {
        dscp: marking(46).dscp,
        mode: Mode::Shadow,
        ..limiting(5)
    };
    let policy_of = |rule: &Rule| Change::Policy(policy("trial", 1, "player", vec![rule.clone()]));
    let outcome = world.apply(policy_of(&trial));
    assert_eq!(links(), before);
    assert!(outcome.meters.values().all(|meter| meter.queue.is_none()));
    let report = world.udp("free", "gateway", mbit(40));
    assert!(report.lost < report.sent / 50, "{report:?}");
    let seen: Vec<u8> = report.dscp_seen.iter().map(|s| s.dscp.into()).collect();
    assert_eq!(seen, [0]);
    let counts = world.rules.counts().unwrap();
    let [count] = counts.as_slice() else {
        panic!("{counts:?}");
    };
    // Of eight parts seven are too many; a sender that is held up sends less.
    let dropped = count.dropped_packets as f64 / count.packets as f64;
    assert!((0.6..0.92).contains(&dropped), "{count:?}");
    assert_eq!(count.marked + count.dropped_packets, count.packets);

    // In earnest there is a queue, and on trial again none.
    let earnest = Rule {
        mode: Mode::Enforce,
        ..trial.clone()
    };
    world.apply(policy_of(&earnest));
    assert_eq!(links(), before + 2);
    assert_eq!(world.marks("free", "gateway", false), [46]);
    world.apply(policy_of(&trial));
    world.tidy();
    assert_eq!(links(), before);
    assert_eq!(world.marks("free", "gateway", false), [0]);
}

#[test]
fn inside_of_the_namespace_where_there_is_no_end_on_the_host() {
    on_both_hooks(|hook| {
        let Some(mut world) = World::new(hook) else {
            return;
        };
        world.macvlan_pod("paid", "player");
        world.macvlan_pod("gateway", "gateway");
        world.apply(Change::Policy(policy("p", 1, "player", vec![marking(20)])));
        assert_eq!(world.marks("paid", "gateway", false), [20]);
        assert_eq!(world.marks("gateway", "paid", false), [0]);
    });
}

/// What was counted for a pod goes when the rule is not for it any more, though both live on.
#[test]
fn and_what_it_counted_goes_with_it() {
    let Some(mut world) = World::new(HOOKS[0]) else {
        return;
    };
    world.pod("a", "player");
    world.pod("c", "player");
    world.pod("b", "gateway");
    world.apply(Change::Policy(policy(
        "all",
        1,
        "player",
        vec![marking(10)],
    )));
    world.apply(Change::Policy(policy("p", 2, "player", vec![marking(20)])));
    assert_eq!(world.marks("a", "b", false), [20]);
    assert_eq!(world.marks("c", "b", false), [20]);
    let only_c = netqos_core::Policy {
        pods: netqos_core::LabelSelector::new([netqos_core::Requirement::equals("name", "c")]),
        ..policy("p", 2, "player", vec![marking(20)])
    };
    world.apply(Change::Policy(only_c));
    assert_eq!(world.marks("a", "b", false), [10]);
    world.tidy();
    let counts = world.rules.counts().unwrap();
    let found = counts.iter();
    let found: Vec<(&str, &str)> = found
        .map(|count| (&*count.endpoint.pod, &*count.rule.policy.name))
        .collect();
    assert_eq!(found, [("uid-a", "all"), ("uid-c", "p")]);
}
