//! Packets lost while the agent starts and while `netqos cleanup` removes all, with pods that run.

use std::net::SocketAddr;
use std::time::Duration;

use netqos_core::BitRate;
use netqos_testkit::Changes;
use netqos_traffic::{Flow, Server, UdpTest};
use serde_json::json;

use crate::stage::{self, Agent};
use crate::{assert_code, run};

const CHANGES: Changes = Changes {
    pairs: 2,
    stays: Duration::from_millis(50),
    takes: Duration::from_millis(800),
};

/// A rule that marks and has a rate. A first limit is a root qdisc, for which the kernel itself stops the link.
#[test]
fn start_with_rules_and_cleanup_lose_no_packet() {
    let Some(node) = stage::node() else { return };
    // It may have to be built.
    stage::executable();
    let (pod, other) = stage::pods(&node);
    stage::put("a.json", &stage::manifest(&pod, json!({})));
    let rules =
        "[{dscp: 46, bandwidth: {rate: 200000}, classifier: {to: [{ipBlock: {cidr: 0.0.0.0/0}}]}}]";
    stage::put("p.yaml", &stage::policy("p", "a", rules));
    let address: SocketAddr = format!("{}:0", other.address()).parse().unwrap();
    let server = other.inside(|| Server::bind(address)).unwrap().unwrap();
    for flow in [Flow::Download, Flow::Upload] {
        let stream = |duration| {
            let test = UdpTest {
                flow,
                omit: Duration::ZERO,
                duration,
                size: 200,
                ..UdpTest::new(
                    server.local_addr(),
                    BitRate::from_bits_per_second(16_000_000),
                )
            };
            pod.inside(|| test.run(|_| ())).unwrap().unwrap().lost
        };
        let mut agent = None;
        let lost = CHANGES.lost(stream, |comes| {
            if comes {
                agent = Some(Agent::start());
                let has_rules = || stage::pod_status("a").is_some_and(|it| it.rules.len() == 1);
                assert!(stage::eventually(has_rules), "{}", stage::log());
            } else {
                let counts = stage::pod_status("a").unwrap().rules[0].counts;
                assert!(flow == Flow::Download || counts.packets > 0, "{counts:?}");
                assert_eq!(agent.take().unwrap().terminate(), Some(0));
                let done = run(&["cleanup", "--yes"]);
                assert_code(&done, 0);
            }
        });
        assert_eq!(lost.unwrap(), 0, "{flow:?}");
    }
}
