use std::time::Duration;

use netqos_core::{BitRate, ByteCount, Limit, Limits};
use netqos_testkit::Node;
use netqos_testkit::random_changes::run_cases;
use netqos_traffic::{Flow, UdpTest};

use super::limit_changes::{cases, keeps_flow};
use super::{Wanted, datapath, hooks, server};

/// The short form has each hook with each congestion control and GSO size once.
#[test]
fn random_limit_change_never_stalls_queue() {
    run_cases(&cases(), 3, 12, keeps_flow);
}

const fn megabits(rate: u64) -> BitRate {
    BitRate::from_bits_per_second(rate * 1_000_000)
}

/// At the lower rate, the burst takes 20 s.
#[test]
fn used_burst_does_not_stop_flow_after_change() {
    for hook in hooks() {
        let Some(node) = Node::new().unwrap() else {
            return;
        };
        let (pod, other) = (node.pod("limited").unwrap(), node.pod("free").unwrap());
        let server = server(&other, &other.address());
        let mut datapath = datapath();
        let mut apply = |limit| {
            let ingress = Some(limit);
            let limits = Limits {
                ingress,
                ..Limits::default()
            };
            let wanted = Wanted::new(&pod, limits, hook).running();
            datapath.apply(&wanted.request()).unwrap();
        };
        let lost = |rate| {
            let test = UdpTest {
                flow: Flow::Download,
                omit: Duration::ZERO,
                duration: Duration::from_secs(1),
                ..UdpTest::new(server.local_addr(), rate)
            };
            let report = pod.inside(|| test.run(|_| ())).unwrap().unwrap();
            report.lost as f64 / report.sent as f64
        };
        apply(Limit {
            burst: Some(ByteCount::from_bytes(2_500_000)),
            ..Limit::of(megabits(1))
        });
        assert!(lost(megabits(50)) > 0.2);
        apply(Limit::of(megabits(10)));
        let lost = lost(megabits(5));
        assert!(lost < 0.1, "{hook:?}: {lost} lost");
    }
}
