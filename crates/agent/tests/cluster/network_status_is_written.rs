//! `network-status` of pods, from the records of `netqos-multinet`.

use std::fs;
use std::path::Path;

use netqos_apiserver::Request;
use netqos_testkit::Pod;
use serde_json::{Value, json};

use crate::stage;
use crate::world::World;

const RECORDS: &str = "/var/lib/netqos/multinet/pods";
const ANNOTATION: &str = "k8s.v1.cni.cncf.io/network-status";

/// Writes a record as the plugin does.
fn record(container: &str, pod: &Pod, uid: Option<&str>, address: &str) {
    let record = json!({
        "containerId": container,
        "pod": {"namespace": "games", "name": pod.name(), "uid": uid},
        "attachments": [],
        "made": 1,
        "status": [{"name": "pods", "interface": "eth0", "ips": [address], "default": true, "dns": {}}],
    });
    fs::create_dir_all(RECORDS).unwrap();
    let fresh = Path::new(RECORDS).join(format!("{container}.new"));
    fs::write(&fresh, record.to_string()).unwrap();
    fs::rename(fresh, Path::new(RECORDS).join(format!("{container}.json"))).unwrap();
}

/// The address that the annotation of a pod has.
fn address(world: &World, pod: &Pod) -> Option<String> {
    let pods = world.list("v1", "Pod");
    let pod = pods
        .iter()
        .find(|it| it["metadata"]["name"] == pod.name())?;
    let text = pod["metadata"]["annotations"][ANNOTATION].as_str()?;
    let status: Value = serde_json::from_str(text).unwrap();
    Some(status[0]["ips"][0].as_str().unwrap().to_owned())
}

fn writes(world: &World) -> usize {
    let requests = world.asked().into_iter();
    requests
        .filter(|it| it.is_write() && it.resource == "pods")
        .count()
}

#[test]
fn record_is_written_to_its_pod_once_and_again_after_a_change() {
    let Some(mut world) = World::new() else {
        return;
    };
    // One of before the agent, and one without a pod.
    record("c1", &world.a, None, "10.0.0.1");
    fs::write(format!("{RECORDS}/broken.json"), "{").unwrap();
    world.start_agent();
    let has = |world: &World, expected: &str| {
        stage::eventually(|| address(world, &world.a).as_deref() == Some(expected))
    };
    assert!(has(&world, "10.0.0.1"));
    let path = |it: &Request| it.path.ends_with("/pods/a/status");
    assert!(
        world
            .asked()
            .iter()
            .filter(|it| it.is_write() && it.resource == "pods")
            .all(path)
    );
    assert_eq!(writes(&world), 1);

    // A younger sandbox, while the older one is on its way out.
    record("c2", &world.a, None, "10.0.0.2");
    assert!(has(&world, "10.0.0.2"));
    record(
        "c3",
        &world.a,
        Some("of-another-pod-of-this-name"),
        "10.0.0.3",
    );
    record("c4", &world.b, None, "10.0.0.4");
    assert!(stage::eventually(|| address(&world, &world.b).is_some()));
    assert_eq!(address(&world, &world.a).as_deref(), Some("10.0.0.2"));
    assert_eq!(writes(&world), 3);
    let metrics = stage::ask("/metrics");
    for (result, number) in [("written", 3), ("failed", 0)] {
        let sample = format!("netqos_multinet_status_writes_total{{result=\"{result}\"}} {number}");
        assert!(metrics.contains(&sample), "{sample} is not in {metrics}");
    }

    // What is there is not written again.
    world.stop_agent();
    world.start_agent();
    record("c5", &world.b, None, "10.0.0.5");
    assert!(stage::eventually(
        || address(&world, &world.b).as_deref() == Some("10.0.0.5")
    ));
    assert_eq!(writes(&world), 4);
}
