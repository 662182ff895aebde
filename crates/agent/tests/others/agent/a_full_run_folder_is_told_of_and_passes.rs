//! `/run/netqos` is a filesystem of its own on no node, and `/run` is one that others fill.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::json;

use super::a_changed_annotation_takes_effect_live::{bandwidth, is_held};
use super::stage::{self, Agent, Flow, RUN};

/// What cannot be remembered is not made: what is in force stays, and everything else goes on.
#[test]
fn what_is_in_force_stays_and_is_changed_as_soon_as_there_is_room() {
    let Some(node) = stage::node() else { return };
    let (a, b) = stage::pods(&node);
    fs::create_dir_all(RUN).unwrap();
    // In the test's own mount namespace.
    let size = ["-t", "tmpfs", "-o", "size=64k", "tmpfs", RUN];
    assert!(Command::new("mount").args(size).status().unwrap().success());
    stage::put("a.json", &stage::manifest(&a, bandwidth("10M")));
    stage::put("b.json", &stage::manifest(&b, json!({})));
    stage::put("p.yaml", &stage::policy("p", "a", "[{dscp: 10}]"));
    let agent = Agent::start();
    assert!(is_held(&node, &a, "10Mbit"));
    let flow = Flow::begin(&a, &b, Duration::from_millis(1));
    flow.wait_for(10);

    let filler = Path::new(RUN).join("filler");
    let full = fs::write(&filler, vec![1; 1 << 20]).unwrap_err();
    assert_eq!(full.kind(), ErrorKind::StorageFull);
    stage::put("a.json", &stage::manifest(&a, bandwidth("20M")));
    stage::put("b.json", &stage::manifest(&b, bandwidth("30M")));
    stage::put("p.yaml", &stage::policy("p", "a", "[{dscp: 20}]"));
    let seen = flow.seen_until(20);
    drop(flow.end());
    assert_eq!(stage::marks(&seen), [10, 20]);
    for pod in ["a", "b"] {
        let is_told = || {
            let problems = stage::status().problems.into_iter();
            let mut of_pod = problems.filter(|it| it.name.ends_with(&format!("/{pod}")));
            of_pod.any(|it| it.reason == "UpdateFailed" && it.message.contains("os error 28"))
        };
        assert!(stage::eventually(is_told), "{:?}", stage::status().problems);
    }
    let metrics = stage::ask("/metrics");
    let counted = metrics
        .lines()
        .find(|it| it.contains("netqos_problems{") && it.contains("UpdateFailed"));
    assert!(counted.is_some_and(|it| it.ends_with(" 2")), "{counted:?}");
    assert!(
        is_held(&node, &a, "10Mbit"),
        "what was in force is not any more"
    );
    assert!(!is_held(&node, &b, "30Mbit"), "nobody would know of it");

    // An agent that finds it so goes by what is written there.
    agent.kill();
    let _agent = Agent::start();
    assert!(
        is_held(&node, &a, "10Mbit"),
        "what was in force is not any more"
    );

    fs::remove_file(filler).unwrap();
    for (pod, rate) in [(&a, "20Mbit"), (&b, "30Mbit")] {
        assert!(
            stage::eventually(|| is_held(&node, pod, rate)),
            "{}",
            stage::log()
        );
    }
    assert!(stage::eventually(|| stage::status().problems.is_empty()));
}
