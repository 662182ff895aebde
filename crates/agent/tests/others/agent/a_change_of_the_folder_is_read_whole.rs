use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::stage::{self, Agent, Flow, MANIFESTS, assert_no_loss};

const EVERY: Duration = Duration::from_millis(1);

/// A file that is written where it stands is read when it is whole, and not before.
#[test]
fn of_its_being_whole() {
    use std::io::Write as _;

    let Some(node) = stage::node() else { return };
    let (a, b) = stage::pods(&node);
    stage::put("a.json", &stage::manifest(&a, json!({})));
    let _agent = Agent::start();
    let flow = Flow::begin(&a, &b, EVERY);
    // The half would be an object of its own, and mark with 4.
    let half = "apiVersion: k8s.ovn.org/v1alpha1\nkind: NetworkQoS\n\
         metadata: {name: p, namespace: games}\n\
         spec:\n  priority: 1\n  podSelector: {}\n  egress:\n  - dscp: 4";
    let mut file = fs::File::create(Path::new(MANIFESTS).join("p.yaml")).unwrap();
    file.write_all(half.as_bytes()).unwrap();
    file.flush().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    // As long as nobody is told otherwise, not even somebody else's file has it read.
    stage::put("q.yaml", &stage::policy("q", "nobody", "[{dscp: 1}]"));
    std::thread::sleep(Duration::from_millis(200));
    file.write_all(b"6\n").unwrap();
    drop(file);
    let marks = |pod: netqos_agent::PodStatus| pod.rules[0].dscp == Some(46);
    assert!(stage::eventually(
        || stage::pod_status("a").is_some_and(marks)
    ));
    let mut seen = flow.seen_until(46);
    seen.extend(flow.end());
    assert!(
        seen.iter().all(|seen| seen.dscp != 4),
        "half of a file was read"
    );
}

/// While rules come, change and go.
#[test]
fn without_a_lost_packet() {
    let Some(node) = stage::node() else { return };
    let (a, b) = stage::pods(&node);
    stage::put("a.json", &stage::manifest(&a, json!({})));
    let _agent = Agent::start();
    let flow = Flow::begin(&a, &b, EVERY);
    for dscp in 1..20 {
        let rules = format!("[{{dscp: {dscp}}}]");
        stage::put("p.yaml", &stage::policy("p", "a", &rules));
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut seen = flow.seen_until(19);
    seen.extend(flow.end());
    assert_no_loss(&seen);
}
