use std::thread;
use std::time::Duration;

use netqos_api::HookChoice;
use netqos_index::Change;
use netqos_testkit::BacklogDrops;

use crate::world::{World, marking, policy};

const TIMES: usize = 20;

/// The automatic hook does not take the link down on kernels with tcx.
#[test]
fn first_and_last_rule_lose_no_packet() {
    for (from, to) in [("other", "free"), ("free", "other")] {
        let Some(mut world) = World::new(HookChoice::Auto) else {
            return;
        };
        world.pod("free", "player");
        world.pod("other", "other");
        let drops = BacklogDrops::count().unwrap();
        let sent = world.under_way(from, to);
        for _ in 0..TIMES {
            world.apply(Change::Policy(policy("p", 1, "player", vec![marking(46)])));
            thread::sleep(Duration::from_millis(60));
            world.apply(Change::PolicyGone(policy("p", 1, "", vec![]).name));
            thread::sleep(Duration::from_millis(60));
        }
        let report = sent.join().unwrap();
        assert!(
            report.lost <= drops.so_far().unwrap(),
            "{from} to {to}: {report}"
        );
    }
}
