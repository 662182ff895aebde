use std::time::Duration;

use serde_json::json;

use crate::stage::{self, Agent, Flow, assert_no_loss};

const RULES: &str = "[{dscp: 46}, {dscp: 10, classifier: {to: [{ipBlock: {cidr: 192.0.2.0/24}}]}}]";

/// Neither its end nor its beginning is to be seen on the wire, nor in the kernel.
#[test]
fn without_touching_what_is_right_and_without_a_lost_packet() {
    let Some(node) = stage::node() else { return };
    let (a, b) = stage::pods(&node);
    let limit = json!({"kubernetes.io/egress-bandwidth": "80M"});
    stage::put("a.json", &stage::manifest(&a, limit));
    stage::put("p.yaml", &stage::policy("p", "a", RULES));
    let agent = Agent::start();
    let flow = Flow::begin(&a, &b, Duration::from_millis(1));
    flow.wait_for(46);
    // What is not urgent has been done.
    std::thread::sleep(Duration::from_millis(1500));
    let before = node.state(&[&a, &b]).unwrap();
    assert_eq!(agent.terminate(), Some(0));
    for _ in 0..2 {
        std::thread::sleep(Duration::from_millis(100));
        let agent = Agent::start();
        let reconciled = stage::status().reconciled;
        assert_eq!((reconciled.changes, reconciled.limits), (0, 0));
        std::thread::sleep(Duration::from_millis(1500));
        agent.kill();
    }
    let after = node.state(&[&a, &b]).unwrap();
    after.assert_is(&before, "the agent ended and began");
    let seen = flow.end();
    assert!(seen.iter().all(|seen| seen.dscp == 46), "marks went");
    assert_no_loss(&seen);
}
