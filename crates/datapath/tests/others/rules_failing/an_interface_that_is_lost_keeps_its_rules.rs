use netqos_core::{ObjectName, ObjectRef, Reason};
use netqos_index::Change;
use netqos_testkit::rules::{World, marking, on_both_hooks, policy};

use super::{endpoint, reasons};

/// Where it was, the rules of before are in force; that the new ones are not is reported as long
/// as it is so.
#[test]
fn and_gets_the_new_ones_when_it_is_found_again() {
    on_both_hooks(|hook| {
        let Some(mut world) = World::new(hook) else {
            return;
        };
        world.pod("a", "player");
        world.pod("b", "player");
        world.pod("c", "gateway");
        world.apply(Change::Policy(policy("p", 1, "player", vec![marking(10)])));
        let (a, b) = (endpoint(&world, "a"), endpoint(&world, "b"));
        let lost = world.attached_at("a", "/run/netns/nowhere");
        world.index.apply(lost);
        let changed = Change::Policy(policy("p", 1, "player", vec![marking(20)]));
        let mut outcome = world.try_apply(changed);
        for time in ["when it changes", "after a sync", "after a second sync"] {
            let unreachable = ObjectRef::Pod(ObjectName::new("games", "a"));
            let wanted = [(&unreachable, Reason::EndpointUnreachable)];
            assert_eq!(reasons(&outcome), wanted, "{time}: {outcome:#?}");
            assert!(!outcome.endpoints.contains_key(&a), "{time}: {outcome:#?}");
            assert!(outcome.endpoints.contains_key(&b), "{time}: {outcome:#?}");
            assert_eq!(world.marks("a", "c", false), [10], "{time}");
            assert_eq!(world.marks("b", "c", false), [20], "{time}");
            world.tidy();
            outcome = world.rules.sync(world.index.plan());
        }
        let found = world.attached_at("a", world.pod_named("a").netns());
        let outcome = world.apply(found);
        assert!(outcome.endpoints.contains_key(&a), "{outcome:#?}");
        assert_eq!(world.marks("a", "c", false), [20]);
        assert_eq!(world.marks("a", "c", true), [20]);
        world.tidy();
        // Nothing is left of the old list.
        let rules = netqos_bpf::rules::Rules::open("/sys/fs/bpf".as_ref());
        assert_eq!(rules.unwrap().unwrap().chains.keys().unwrap().len(), 1);
    });
}
