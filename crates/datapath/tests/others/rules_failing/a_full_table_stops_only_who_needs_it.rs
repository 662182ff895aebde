use netqos_bpf::rules::{Plain, Rules, Table};
use netqos_core::Reason;
use netqos_index::Change;
use netqos_testkit::rules::{World, marking, on_both_hooks, policy};

use super::{endpoint, reasons};

fn tables() -> Rules {
    Rules::open("/sys/fs/bpf".as_ref()).unwrap().unwrap()
}

/// Puts as much into a table as it takes; the keys.
fn fill<K: Plain, V: Plain>(table: &Table<K, V>, keys: impl Iterator<Item = K>) -> Vec<K> {
    let mut filled = Vec::new();
    for key in keys {
        match table.claim(&key, &V::default()) {
            Ok(true) => filled.push(key),
            Ok(false) => {}
            Err(_) => return filled,
        }
    }
    panic!("it takes all {}", filled.len());
}

fn empty<K: Plain, V: Plain>(table: &Table<K, V>, keys: &[K]) {
    for key in keys {
        table.remove(key).unwrap();
    }
}

/// Two lists are in force, and there is no room for a third: a pod whose list becomes another goes
/// by the old one; another pod, whose list is there, and one that loses its rules are not held up.
#[test]
fn of_rule_lists() {
    on_both_hooks(|hook| {
        let Some(mut world) = World::new(hook) else {
            return;
        };
        world.pod("a", "player");
        world.pod("b", "gateway");
        world.pod("c", "store");
        world.pod("d", "leaver");
        for (kind, dscp) in [("player", 10), ("gateway", 11), ("leaver", 12)] {
            world.apply(Change::Policy(policy(kind, 1, kind, vec![marking(dscp)])));
        }
        let a = endpoint(&world, "a");
        let tables = tables();
        let mut junk = fill(&tables.chains, 1..);
        assert!(junk.len() > 60_000, "{}", junk.len());
        let lost = policy("leaver", 1, "nobody", vec![marking(12)]);
        world.index.apply(Change::Policy(lost));
        let wider = policy("gateway", 1, "store", vec![marking(11)]);
        world.index.apply(Change::Policy(wider));
        let mut outcome = world.try_apply(Change::Policy(policy(
            "player",
            1,
            "player",
            vec![marking(20)],
        )));
        for time in ["when it changes", "after a sync"] {
            let found = reasons(&outcome);
            assert!(
                !found.is_empty() && found.iter().all(|(_, why)| *why == Reason::UpdateFailed),
                "{time}: {outcome:#?}"
            );
            assert!(!outcome.endpoints.contains_key(&a), "{time}: {outcome:#?}");
            assert_eq!(world.marks("a", "b", false), [10], "{time}");
            assert_eq!(world.marks("b", "a", false), [0], "{time}");
            assert_eq!(world.marks("c", "a", false), [11], "{time}");
            assert_eq!(world.marks("d", "a", false), [0], "{time}");
            // A sync takes away what is not of the plan, when it has done the rest.
            junk.extend(fill(&tables.chains, 1..));
            outcome = world.rules.sync(world.index.plan());
        }
        empty(&tables.chains, &junk);
        let outcome = world.rules.sync(world.index.plan());
        assert_eq!(outcome.problems, []);
        assert!(outcome.endpoints.contains_key(&a), "{outcome:#?}");
        assert_eq!(world.marks("a", "b", false), [20]);
        assert_eq!(world.rules.sync(world.index.plan()).changes, 0);
        assert_eq!(tables.chains.keys().unwrap().len(), 2);
    });
}

/// There is no number for one pod more: others get their new rules.
#[test]
fn of_endpoints() {
    on_both_hooks(|hook| {
        let Some(mut world) = World::new(hook) else {
            return;
        };
        world.pod("a", "player");
        world.pod("c", "store");
        world.apply(Change::Policy(policy(
            "player",
            1,
            "player",
            vec![marking(10)],
        )));
        let tables = tables();
        let mut junk = fill(&tables.endpoints, 1..=0x1_0000);
        assert!(junk.len() > 60_000, "{}", junk.len());
        let more = policy("store", 1, "store", vec![marking(11)]);
        world.index.apply(Change::Policy(more));
        let changed = policy("player", 1, "player", vec![marking(20)]);
        let mut outcome = world.try_apply(Change::Policy(changed));
        let c = endpoint(&world, "c");
        for time in ["when it changes", "after a sync"] {
            let found = reasons(&outcome);
            assert_eq!(found.len(), 1, "{time}: {outcome:#?}");
            assert!(!outcome.endpoints.contains_key(&c), "{time}: {outcome:#?}");
            assert_eq!(world.marks("a", "c", false), [20], "{time}");
            assert_eq!(world.marks("c", "a", false), [0], "{time}");
            // A sync takes away what is not of the plan, when it has done the rest.
            junk.extend(fill(&tables.endpoints, 1..=0x1_0000));
            outcome = world.rules.sync(world.index.plan());
        }
        empty(&tables.endpoints, &junk);
        let outcome = world.rules.sync(world.index.plan());
        assert_eq!(outcome.problems, []);
        assert_eq!(world.marks("c", "a", false), [11]);
        assert_eq!(world.rules.sync(world.index.plan()).changes, 0);
        assert_eq!(tables.endpoints.keys().unwrap().len(), 2);
    });
}
