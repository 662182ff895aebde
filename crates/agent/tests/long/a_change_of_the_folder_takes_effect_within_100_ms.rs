use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::stage::{self, Agent, Flow, MANIFESTS};

const EVERY: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(100);

/// From the rename to the first marked datagram; nothing is lost on the way.
#[test]
fn of_the_rename() {
    let Some(node) = stage::node() else { return };
    let (a, b) = stage::pods(&node);
    stage::put("a.json", &stage::manifest(&a, json!({})));
    let _agent = Agent::start();
    let flow = Flow::begin(&a, &b, EVERY);
    flow.wait_for(0);
    let mut took = Vec::new();
    let marks = [0, 46, 10, 12, 14, 18];
    for (before, dscp) in marks.into_iter().zip(marks.into_iter().skip(1)) {
        let rules = format!("[{{dscp: {dscp}}}]");
        stage::put("p.yaml", &stage::policy("p", "a", &rules));
        let began = Instant::now();
        let first = flow.wait_for_after(before, dscp);
        took.push(first.at.saturating_duration_since(began));
    }
    fs::remove_file(Path::new(MANIFESTS).join("p.yaml")).unwrap();
    let began = Instant::now();
    let first = flow.wait_for_after(18, 0);
    took.push(first.at.saturating_duration_since(began));
    took.sort();
    eprintln!("from the rename to the mark: {took:?}");
    // The machine may be busy with something else at one time or other.
    assert!(took[took.len() / 2] < LONGEST, "{took:?}");
    assert!(took[0] < LONGEST / 2, "{took:?}");
    let rest = flow.end();
    assert!(rest.iter().all(|seen| seen.dscp == 0));
}
