use std::fs;
use std::time::{Duration, Instant};

use serde_json::json;

use super::stage::{self, Agent, Flow};

/// A pod that the runtime adds while the agent runs is enforced at once.
#[test]
fn and_at_once() {
    let Some(node) = stage::node() else { return };
    let (a, b) = (node.pod("a").unwrap(), node.pod("b").unwrap());
    stage::put("a.json", &stage::manifest(&a, json!({})));
    stage::put("p.yaml", &stage::policy("p", "a", "[{dscp: 46}]"));
    fs::remove_dir_all("/var/lib/cni").unwrap();
    let _agent = Agent::start();
    let problem = &stage::status().problems[0];
    assert_eq!(
        (problem.name.as_str(), problem.reason.as_str()),
        ("games/a", "EndpointUnreachable")
    );
    let flow = Flow::begin(&a, &b, Duration::from_millis(1));
    flow.wait_for(0);
    // Not even the folder was there.
    fs::create_dir_all("/var/lib/cni/results").unwrap();
    stage::remember(&a, json!({}));
    let began = Instant::now();
    let took = flow.wait_for(46).at.saturating_duration_since(began);
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert_eq!(stage::status().problems, []);
    drop(flow.end());
    // And gone again.
    fs::remove_file(stage::remembered(&a)).unwrap();
    assert!(stage::eventually(|| stage::status().problems.len() == 1));
}

/// An interface that has no end on the host is reached inside of the pod.
#[test]
fn also_in_a_macvlan() {
    let Some(node) = stage::node() else { return };
    node.parent_link("parent").unwrap();
    let a = node.macvlan_pod("a", "parent").unwrap();
    let b = node.macvlan_pod("b", "parent").unwrap();
    stage::remember(&a, json!({}));
    stage::put("a.json", &stage::manifest(&a, json!({})));
    stage::put("p.yaml", &stage::policy("p", "a", "[{dscp: 46}]"));
    let _agent = Agent::start();
    let flow = Flow::begin(&a, &b, Duration::from_millis(1));
    flow.wait_for(46);
    assert_eq!(stage::pod_status("a").unwrap().failing, "");
}

/// A runtime knows a pod by the uid that the API server gave it, and a manifest in a folder has none.
#[test]
fn by_their_names_where_a_manifest_has_no_uid_and_by_their_uids_where_it_has() {
    let Some(node) = stage::node() else { return };
    let (a, b) = stage::pods(&node);
    stage::remember_as(&a, "36cee2dc", json!({}));
    stage::put("p.yaml", &stage::policy("p", "a", "[{dscp: 46}]"));
    let with_uid = |uid: Option<&str>| {
        let mut object: serde_json::Value =
            serde_json::from_str(&stage::manifest(&a, json!({}))).unwrap();
        object["metadata"]["uid"] = json!(uid);
        stage::put("a.json", &object.to_string());
    };
    with_uid(None);
    let _agent = Agent::start();
    for (uid, mark) in [
        (None, 46),
        (Some("of another pod"), 0),
        (Some("36cee2dc"), 46),
    ] {
        with_uid(uid);
        let reasons = || {
            let problems = stage::status().problems.into_iter();
            problems.map(|it| it.reason).collect::<Vec<_>>()
        };
        let wrong: &[&str] = match mark {
            0 => &["EndpointUnreachable"],
            _ => &[],
        };
        assert!(
            stage::eventually(|| reasons() == wrong),
            "{uid:?}: {:?}",
            reasons()
        );
        let flow = Flow::begin(&a, &b, Duration::from_millis(1));
        flow.wait_for(mark);
        drop(flow.end());
    }
}
