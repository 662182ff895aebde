use netqos_index::Change;
use netqos_testkit::rules::{TCP_SHARE, World, limiting, mbit, policy};

use super::{best, on_both_hooks};

#[test]
fn by_tcp_and_by_udp() {
    on_both_hooks(|hook| {
        let Some(mut world) = World::new(hook) else {
            return;
        };
        world.pod("free", "player");
        world.pod("gateway", "gateway");
        world.apply(Change::Policy(policy("p", 1, "player", vec![limiting(20)])));
        let ideal = 20e6 * TCP_SHARE;
        let is_right = |rate: &f64| (0.92..1.03).contains(&(rate / ideal));
        let tcp = best(is_right, || world.tcp("free", "gateway", 2.0));
        assert!(is_right(&tcp), "{hook:?}: {tcp}");

        let is_right = |rate: &f64| (0.95..1.03).contains(&(rate / 20e6));
        let udp = best(is_right, || {
            let report = world.udp("free", "gateway", mbit(40));
            // Of the frame the payload is a part.
            report.goodput.rate.bits_per_second() as f64 * 1.045
        });
        assert!(is_right(&udp), "{hook:?}: {udp}");
    });
}
