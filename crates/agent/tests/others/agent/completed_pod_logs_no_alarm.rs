use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::a_changed_annotation_takes_effect_live::bandwidth;
use super::stage::{self, Agent};

/// The object of a pod that has completed.
fn completed(manifest: &str) -> String {
    let mut pod: Value = serde_json::from_str(manifest).unwrap();
    pod["status"]["phase"] = json!("Succeeded");
    pod.to_string()
}

/// Interfaces go before the objects say that their pods have completed.
#[test]
fn endpoint_is_reported_unreachable_at_once_and_logged_once_it_lasts() {
    let Some(node) = stage::node() else { return };
    let (a, b) = stage::pods(&node);
    let manifest = |pod| stage::manifest(pod, bandwidth("10M"));
    stage::put("a.json", &manifest(&a));
    stage::put("b.json", &manifest(&b));
    let _agent = Agent::start();
    let (a_is, b_is) = (manifest(&a), stage::remembered(&b));
    std::fs::remove_file(stage::remembered(&a)).unwrap();
    a.remove(&node).unwrap();
    let unreachable = |pod: &str| {
        let problems = stage::status().problems;
        let mut of_pod = problems.iter().filter(|it| it.name == pod);
        of_pod.any(|it| it.reason == "EndpointUnreachable")
    };
    assert!(stage::eventually(|| unreachable("games/a")));
    stage::put("a.json", &completed(&a_is));
    assert!(stage::eventually(|| !unreachable("games/a")));
    // One that runs and is not to be found is an alarm.
    std::fs::remove_file(b_is).unwrap();
    b.remove(&node).unwrap();
    let logged = |pod: &str| stage::has_logged(&["WARN", pod, "EndpointUnreachable"]);
    assert!(stage::eventually(|| logged("Pod games/b")));
    thread::sleep(Duration::from_secs(1));
    assert!(!logged("Pod games/a"), "{}", stage::log());
    let ended = stage::has_logged(&["Pod games/a", "not any more"]);
    assert!(!ended, "{}", stage::log());
}

/// A pod's namespace outlives its interface while its sandbox is removed.
#[test]
fn limit_of_interface_that_is_gone_is_reported_unreachable() {
    let Some(node) = stage::node() else { return };
    let (a, _) = stage::pods(&node);
    stage::put("a.json", &stage::manifest(&a, bandwidth("10M")));
    let _agent = Agent::start();
    node.run("ip", &["link", "delete", a.host_link()]).unwrap();
    stage::put("a.json", &stage::manifest(&a, bandwidth("20M")));
    let reasons = || {
        let problems = stage::status().problems.into_iter();
        let of_pod = problems.filter(|it| it.name == "games/a");
        of_pod.map(|it| it.reason).collect::<Vec<_>>()
    };
    assert!(
        stage::eventually(|| reasons().contains(&"EndpointUnreachable".to_owned())),
        "{:?}",
        reasons()
    );
    assert!(
        !stage::has_logged(&["WARN", "Pod games/a"]),
        "{}",
        stage::log()
    );
}
