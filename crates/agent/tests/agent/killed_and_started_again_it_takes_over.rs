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

/// Killed anywhere, the next does what this one had to, and nothing more.
#[test]
fn at_any_moment() {
    let Some(node) = stage::node() else { return };
    let (a, b) = stage::pods(&node);
    let limit = json!({"kubernetes.io/egress-bandwidth": "80M"});
    stage::put("a.json", &stage::manifest(&a, limit.clone()));
    stage::put("p.yaml", &stage::policy("p", "a", RULES));
    let agent = Agent::start();
    std::thread::sleep(Duration::from_millis(1500));
    let made = lines(&node.state(&[&a, &b]).unwrap());
    stage::put("a.json", &stage::manifest(&a, json!({})));
    stage::put("p.yaml", "");
    assert!(stage::eventually(|| stage::status().pods.is_empty()));
    std::thread::sleep(Duration::from_millis(1500));
    let nothing = lines(&node.state(&[&a, &b]).unwrap());
    agent.kill();
    for step in 0..12 {
        let moment = Duration::from_millis(8 * step);
        stage::put("a.json", &stage::manifest(&a, limit.clone()));
        stage::put("p.yaml", &stage::policy("p", "a", RULES));
        let agent = Agent::spawn(&[]);
        std::thread::sleep(moment);
        agent.kill();
        let agent = Agent::start();
        let what = format!("making it, killed after {moment:?}");
        assert_becomes(|| lines(&node.state(&[&a, &b]).unwrap()), &made, &what);
        stage::put("a.json", &stage::manifest(&a, json!({})));
        stage::put("p.yaml", "");
        std::thread::sleep(moment / 8);
        agent.kill();
        let agent = Agent::start();
        let what = format!("removing it, killed {:?} after", moment / 8);
        assert_becomes(|| lines(&node.state(&[&a, &b]).unwrap()), &nothing, &what);
        agent.kill();
    }
}

fn assert_becomes(now: impl Fn() -> Vec<String>, wanted: &[String], what: &str) {
    if stage::eventually(|| now() == wanted) {
        return;
    }
    let now = now();
    let only_in = |one: &[String], other: &[String]| -> Vec<String> {
        let lines = one.iter().filter(|line| !other.contains(line));
        lines.cloned().collect()
    };
    let (missing, new) = (only_in(wanted, &now), only_in(&now, wanted));
    panic!("{what}: missing: {missing:#?}, new: {new:#?}");
}

/// The lines of a state without what is another each time: numbers of programs and endpoints.
fn lines(state: &netqos_testkit::State) -> Vec<String> {
    let text = format!("{state:#?}");
    let without_numbers = |line: &str| {
        let mut last = "";
        let words = line.split(' ').filter(|word| {
            let before = std::mem::replace(&mut last, word);
            !matches!(before, "id" | "classid" | "ifindex")
        });
        words.collect::<Vec<_>>().join(" ")
    };
    text.lines().map(without_numbers).collect()
}
