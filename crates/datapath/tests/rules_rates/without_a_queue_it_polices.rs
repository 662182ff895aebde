use netqos_core::Reason;
use netqos_index::Change;

use crate::world::{TCP_SHARE, World, limiting, mbit, policy};
use crate::{Stream, UDP_SHARE, best, on_both_hooks, together, without_rules};

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
        world.apply(without_rules());
        world.rules.tidy().unwrap();
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

        for (stream, full, least) in [
            (
                Stream::tcp(&world, "free", "gateway"),
                20e6 * TCP_SHARE,
                0.8,
            ),
            (
                Stream::udp(&world, "free", "gateway", mbit(40)),
                20e6 * UDP_SHARE,
                0.97,
            ),
        ] {
            let is_right = |rate: &[f64; 1]| (least..1.04).contains(&(rate[0] / full));
            let rate = best(is_right, || together([stream], 3.0));
            println!("{hook:?}: {:.3}", rate[0] / full);
            assert!(is_right(&rate), "{hook:?}: {rate:.0?}");
        }
        assert_eq!(ip(&world, &["-d", "link", "show", &queue]), theirs);

        // Once the name is free it queues.
        ip(&world, &["link", "del", &queue]);
        let outcome = world.rules.sync(world.index.plan());
        assert_eq!(outcome.problems, []);
        assert_eq!(outcome.meters.values().next().unwrap().queue, Some(queue));
        let full = 20e6 * TCP_SHARE;
        let is_right = |rate: &f64| (0.92..1.04).contains(&(rate / full));
        let rate = best(is_right, || world.tcp("free", "gateway", 1.0));
        assert!(is_right(&rate), "{hook:?}: {rate}");
    });
}

fn ip(world: &World, arguments: &[&str]) -> String {
    world.node.run("ip", arguments).unwrap()
}
