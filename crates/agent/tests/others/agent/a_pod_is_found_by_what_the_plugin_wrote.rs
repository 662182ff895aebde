//! Where no runtime keeps a cache of results, and the agent sees no processes.

use std::fs;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use netqos_core::Attachment;
use netqos_datapath::{AttachedPod, AttachedPods, HostLinks, LimitDatapath, Paths, Request};
use netqos_testkit::Pod;
use serde_json::{Value, json};

use super::stage::{self, Agent, Flow};

const UID: &str = "7a1f0c53-92ce-4c0b-8f1d-0e5b6d2a9c11";

fn paths() -> Paths {
    Paths::from_variables(|_| None)
}

fn attached(pod: &Pod, container: &str, uid: &str, netns: PathBuf) -> AttachedPod {
    AttachedPod {
        attachment: Attachment::try_new("net", container, "eth0").unwrap(),
        netns,
        namespace: "games".to_owned(),
        name: pod.name().to_owned(),
        uid: Some(uid.to_owned()),
        addresses: [pod.address().parse().unwrap()].into(),
        ends: None,
        has_annotations: true,
    }
}

fn write(pod: &AttachedPod) {
    AttachedPods::new(paths().pods()).write(pod).unwrap();
}

fn put(pod: &Pod, annotations: Value) {
    let mut object: Value = serde_json::from_str(&stage::manifest(pod, annotations)).unwrap();
    object["metadata"]["uid"] = UID.into();
    stage::put("a.json", &object.to_string());
}

fn reasons() -> Vec<String> {
    let problems = stage::status().problems.into_iter();
    problems.map(|it| it.reason).collect()
}

fn rate() -> Option<u64> {
    let limits = stage::pod_status("a")?.limits.into_iter();
    limits.filter(|it| it.in_force).map(|it| it.rate).next()
}

#[test]
fn and_stays_found_whatever_becomes_of_its_limits() {
    let Some(node) = stage::node() else { return };
    let (a, b) = (node.pod("a").unwrap(), node.pod("b").unwrap());
    fs::remove_dir_all("/var/lib/cni").unwrap();
    stage::put("p.yaml", &stage::policy("p", "a", "[{dscp: 46}]"));
    let limited = json!({"kubernetes.io/egress-bandwidth": "80M"});
    put(&a, limited.clone());
    let agent = Agent::start_with(&["--cgroup-root", "off"]);
    assert_eq!(reasons(), ["EndpointUnreachable"]);
    let flow = Flow::begin(&a, &b, Duration::from_millis(1));
    flow.wait_for(0);
    // One that had its name before, of which nobody has told yet that it is gone.
    let old = attached(&a, "old", "of another pod", a.netns());
    write(&old);
    sleep(Duration::from_millis(300));
    assert_eq!(reasons(), ["EndpointUnreachable"]);
    flow.wait_for(0);
    // And one of which the namespace is gone.
    write(&attached(&a, "gone", UID, "/run/netns/nowhere".into()));

    let own = attached(&a, "a", UID, a.netns());
    let began = Instant::now();
    write(&own);
    let took = flow.wait_for(46).at.saturating_duration_since(began);
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert!(stage::eventually(|| rate() == Some(80_000_000)));
    assert_eq!(reasons(), [""; 0]);

    // Its limit goes, and comes: the pod is where it was.
    put(&a, json!({}));
    assert!(stage::eventually(|| rate().is_none()));
    assert_eq!(reasons(), [""; 0]);
    put(&a, limited);
    assert!(stage::eventually(|| rate() == Some(80_000_000)));

    // Another agent finds it as well; the plugin's own limit, which annotations asked for, is lifted.
    agent.kill();
    put(&a, json!({}));
    let limits = netqos_core::Limits {
        ingress: None,
        egress: Some(netqos_core::Limit::of(
            netqos_core::BitRate::from_bits_per_second(80_000_000),
        )),
    };
    fs::remove_dir_all("/run/netqos/agent-limits").unwrap();
    let netns = a.netns();
    let request = Request {
        attachment: &own.attachment,
        netns: &netns,
        ends: None,
        host_links: HostLinks::Unknown,
        limits,
        egress: Default::default(),
        hook: Default::default(),
        is_running: false,
    };
    let mut datapath = LimitDatapath::open(paths()).unwrap();
    datapath.apply(&request).unwrap();
    let _agent = Agent::start_with(&["--cgroup-root", "off"]);
    let record = || datapath.records().read(&own.attachment).unwrap();
    assert!(stage::eventually(|| record().is_none()), "{:?}", record());
    flow.wait_for(46);
    assert_eq!(reasons(), [""; 0]);

    // DEL.
    AttachedPods::new(paths().pods())
        .remove(&own.attachment)
        .unwrap();
    assert!(stage::eventually(|| reasons() == ["EndpointUnreachable"]));
    drop(flow.end());
}
