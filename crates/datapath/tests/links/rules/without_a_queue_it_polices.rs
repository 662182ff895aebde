use netqos_core::Reason;
use netqos_index::Change;
use netqos_testkit::rules::{World, limiting, on_both_hooks, policy};

use super::{assert_limited, assert_tcp_limited};

/// Somebody else has a link of the name that the queue would have.
#[test]
fn and_says_so() {
    on_both_hooks(|hook| {
        let Some(mut world) = World::new(hook) else {
            return;
        };
        world.pod("free", "player");
        world.pod("gateway", "gateway");
        let rule = || Change::Policy(policy("p", 1, "player", vec![limiting(20)]));
        let outcome = world.apply(rule());
        let queue = outcome.meters.values().next().unwrap().queue.clone();
        let queue = queue.unwrap();
        world.apply(Change::PolicyGone(policy("p", 1, "", vec![]).name));
        world.tidy();
        ip(
            &world,
            &[
                "link", "add", &queue, "type", "veth", "peer", "name", "theirs",
            ],
        );
        ip(&world, &["link", "set", &queue, "alias", "somebody else's"]);
        let theirs = ip(&world, &["-d", "link", "show", &queue]);

        let outcome = world.try_apply(rule());
        let reasons: Vec<Reason> = outcome.problems.iter().map(|p| p.reason).collect();
        assert_eq!(reasons, [Reason::KernelFeatureMissing]);
        println!("{}", outcome.problems[0]);
        assert!(outcome.problems[0].message.contains("no queue"));
        assert_eq!(outcome.meters.values().next().unwrap().queue, None);

        assert_tcp_limited(&world, "free", "gateway", 20);
        assert_eq!(ip(&world, &["-d", "link", "show", &queue]), theirs);

        // Once the name is free it queues.
        ip(&world, &["link", "del", &queue]);
        let outcome = world.rules.sync(world.index.plan());
        assert_eq!(outcome.problems, []);
        assert_eq!(outcome.meters.values().next().unwrap().queue, Some(queue));
        assert_limited(&world, &[("free", "gateway")], 20);
    });
}

fn ip(world: &World, arguments: &[&str]) -> String {
    world.node.run("ip", arguments).unwrap()
}
