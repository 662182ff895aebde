//! `network-status` of pods, from the records of `netqos-multinet`.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use netqos_faults::{Fault, Request};
use netqos_testkit::Pod;
use serde_json::{Value, json};

use super::stage;
use super::world::{AGENT, World};

const RECORDS: &str = "/var/lib/netqos/multinet/pods";
const ANNOTATION: &str = "k8s.v1.cni.cncf.io/network-status";

/// Writes a record as the plugin does.
fn record(container: &str, pod: &Pod, uid: Option<&str>, address: &str) {
    record_of(container, pod.name(), uid, address);
}

fn record_of(container: &str, pod: &str, uid: Option<&str>, address: &str) {
    let record = json!({
        "containerId": container,
        "pod": {"namespace": "games", "name": pod, "uid": uid},
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
    let status: Value = serde_json::from_str(text).ok()?;
    Some(status[0]["ips"][0].as_str().unwrap().to_owned())
}

/// A change that a tenant may make: API servers take no other value from it. The pod differs each time.
fn without_annotation(number: u32) -> Value {
    let networks = format!("network{number}");
    json!({"metadata": {"annotations": {ANNOTATION: null, "k8s.v1.cni.cncf.io/networks": networks}}})
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

#[test]
fn annotation_that_a_tenant_changes_is_restored_at_once_and_then_once_in_a_while() {
    let Some(mut world) = World::new() else {
        return;
    };
    record("c1", &world.a, None, "10.0.0.1");
    world.start_agent();
    let is_restored = || address(&world, &world.a).as_deref() == Some("10.0.0.1");
    assert!(stage::eventually(is_restored));
    let change = |number: u32| {
        world.patch("v1", "Pod", "a", &without_annotation(number));
        Instant::now()
    };
    // Past the time for which it is not written again.
    sleep(Duration::from_secs(6));
    let began = change(0);
    assert!(stage::eventually(is_restored));
    // The agent compares all of them once in 60 s, whatever happens.
    let waited = began.elapsed();
    assert!(waited < Duration::from_secs(15), "{waited:?}");
    let (before, began) = (writes(&world), Instant::now());
    for number in 1..=40 {
        change(number);
        sleep(Duration::from_millis(50));
    }
    assert!(stage::eventually(is_restored));
    let waited = began.elapsed();
    assert!(waited < Duration::from_secs(30), "{waited:?}");
    // Once in five seconds.
    let most = 2 + waited.as_secs() as usize / 5;
    let restored = writes(&world) - before;
    assert!((1..=most).contains(&restored), "{restored} in {waited:?}");
}

#[test]
fn pods_whose_annotation_the_server_refuses_keep_no_other_waiting() {
    let Some(mut world) = World::new() else {
        return;
    };
    // As large as a server takes all annotations of an object together.
    let full = "x".repeat((256 << 10) - "full".len());
    let hostile: Vec<String> = (0..8).map(|it| format!("a-{it}")).collect();
    for (number, name) in hostile.iter().enumerate() {
        let pod = json!({
            "metadata": {"name": name, "annotations": {"full": full}},
            "spec": {"nodeName": "node1", "containers": [{"name": "c", "image": "none"}]},
        });
        world.create("v1", "Pod", "games", pod);
        record_of(&format!("h{number}"), name, None, "10.0.0.9");
    }
    record("c1", &world.b, None, "10.0.0.1");
    world.start_agent();
    let began = Instant::now();
    assert!(stage::eventually(|| address(&world, &world.b).is_some()));
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    // Each is tried once.
    sleep(Duration::from_secs(2));
    let first = writes(&world);
    assert_eq!(first, hostile.len() + 1);
    sleep(Duration::from_secs(3));
    assert_eq!(writes(&world), first);
}

#[test]
fn server_that_takes_no_patch_is_asked_seldom_and_again() {
    let Some(mut world) = World::new() else {
        return;
    };
    record("c1", &world.a, None, "10.0.0.1");
    record("c2", &world.b, None, "10.0.0.2");
    world
        .front
        .inject(Fault::status(500).on("patch", "*").of(AGENT));
    world.start_agent();
    assert!(stage::eventually(|| writes(&world) > 0));
    // The client repeats none that is answered so. A change of a pod makes it no more often: each pause is twice as long.
    let began = Instant::now();
    for number in 0..40 {
        world.patch("v1", "Pod", "b", &without_annotation(number));
        sleep(Duration::from_millis(50));
    }
    let tried = writes(&world);
    let doublings = (1.0 + began.elapsed().as_secs_f64() / 0.5).log2();
    assert!(tried as f64 <= 3.0 + doublings, "{tried}");
    world.front.heal();
    let is_written = |pod: &Pod| address(&world, pod).is_some();
    assert!(stage::eventually(
        || is_written(&world.a) && is_written(&world.b)
    ));
}
