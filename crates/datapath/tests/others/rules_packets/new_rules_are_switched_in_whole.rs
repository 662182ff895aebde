use std::time::Duration;

use netqos_core::Rule;
use netqos_index::Change;
use netqos_testkit::BacklogDrops;
use netqos_testkit::rules::{marking, on_both_hooks, policy, to_pod, udp_port};

use super::two_pods;

const SWAPS: usize = 200;

/// A list that marks everything, by a rule for the pod that comes after many others.
fn list(dscp: i64) -> Vec<Rule> {
    let everything = marking(dscp);
    let others = (1..100).map(|port| Rule {
        ports: vec![udp_port(port)],
        ..marking(dscp + 1)
    });
    let to_b = Rule {
        to: vec![to_pod("b")],
        ..marking(dscp)
    };
    std::iter::once(everything)
        .chain(others)
        .chain([to_b])
        .collect()
}

/// While packets are under way, each is marked by the one list or the other.
#[test]
fn while_packets_are_under_way() {
    on_both_hooks(|hook| {
        let Some(mut world) = two_pods(hook) else {
            return;
        };
        world.apply(Change::Policy(policy("p", 1, "player", list(10))));
        let drops = BacklogDrops::count().unwrap();
        let sender = world.under_way_for(Duration::from_secs(12), "a", "b");
        for swap in 0..SWAPS {
            let dscp = if swap % 2 == 0 { 20 } else { 10 };
            let outcome = world.apply(Change::Policy(policy("p", 1, "player", list(dscp))));
            // After a pause the list is written anew; else it is there still, and comes again.
            let is_new = swap == 0 || swap % 3 == 1;
            assert!(outcome.changes > if is_new { 100 } else { 0 });
            if swap % 3 == 0 {
                world.tidy();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(!sender.is_finished(), "packets ended before the swaps did");
        let report = sender.join().unwrap();
        assert_eq!(report.received + report.lost, report.sent, "{hook:?}");
        assert!(report.lost <= drops.so_far().unwrap(), "{hook:?}: {report}");
        let seen = report.dscp_seen.iter();
        let seen: Vec<u8> = seen.map(|seen| u8::from(seen.dscp)).collect();
        assert_eq!(seen, [10, 20], "{hook:?}: {:?}", report.dscp_seen);
        // What was is gone.
        world.tidy();
        let rules = netqos_bpf::rules::Rules::open("/sys/fs/bpf".as_ref());
        assert_eq!(rules.unwrap().unwrap().chains.keys().unwrap().len(), 1);
    });
}
